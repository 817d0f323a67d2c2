// support/headers.hpp is precompiled for this program, and tests use that.
int main() {}
