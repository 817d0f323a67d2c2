#pragma once
// Counts what all threads of this process take from the heap, between two points, and remembers who did.
// In a program that links heap_watch.cpp, malloc and its relatives go through it (operator new calls them); not with
// sanitizers, which have their own, and of glibc alone.
//
//   heap_watch::begin();
//   ... steps ...
//   EXPECT_EQ(heap_watch::end(), 0U) << heap_watch::report();

#include <cstdint>
#include <string>

namespace weft::test::heap_watch {

void begin();
/// @returns how often memory was taken since begin()
std::uint64_t end();
/// The stacks that took it, the first few that differ: "3 times by" and a frame a line.
std::string report();

}  // namespace weft::test::heap_watch
