#pragma once
// How the conformance suite gets its ranks: each program that runs it defines this one function.

#include <functional>

#include "weft/collectives/communicator.hpp"

namespace weft::test {

/// Runs `body` on every rank, for every number of ranks and kind of memory that the program stands for.
void on_ranks(const std::function<void(Communicator)>& body);

}  // namespace weft::test
