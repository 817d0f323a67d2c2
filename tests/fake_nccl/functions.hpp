#pragma once
// NCCL's functions by name, for a program that does not load the fake as a library.

namespace weft::fake_nccl {

/// Null where this version has none of that name.
void* find(const char* symbol);

}  // namespace weft::fake_nccl
