#pragma once
// How the conformance suite gets its ranks: each program that runs it defines this one function.

#include <functional>

#include "weft/collectives/communicator.hpp"
#if WEFT_THROUGH_C
#include "conformance/through_c.hpp"  // whose classes hide those of weft
#endif

namespace weft::test {

/// Whether the suite goes through weft.h. Its calls have one count and one data type for input and output, so some mistakes cannot be made.
#if WEFT_THROUGH_C
inline constexpr bool through_c = true;
#else
inline constexpr bool through_c = false;
#endif

/// Runs `body` on every rank, for every number of ranks and kind of memory that the program stands for.
void on_ranks(const std::function<void(Communicator)>& body);

}  // namespace weft::test
