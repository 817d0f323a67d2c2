#pragma once
// Accesses of a kernel's threads to memory that they share, and which of them conflict: two threads touch a byte, one of them writes,
// and nothing orders them. In a block a barrier does; between blocks nothing does. Atomic and volatile accesses do not conflict
// with each other. Reading shared memory that no thread of the block has written is reported, too.
//
// Who compiles a kernel with -fsanitize=thread, and does not link that sanitizer, calls these for each access (records.cpp).

#include <cstddef>
#include <string>

namespace weft::emulation::records {

enum class Access { read, write, atomic };

void begin();
void begin_block();
/// @returns the first conflict since begin(), in words; empty: none
std::string end();
void add(const void* address, std::size_t bytes, Access access);

}  // namespace weft::emulation::records
