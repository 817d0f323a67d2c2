// standard_headers.hpp is precompiled for this program and this object, and others use that (WEFT_PCH).
int main() {}
