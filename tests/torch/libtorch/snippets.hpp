#pragma once
// What the snippets of docs/libtorch.md find: a communicator, a module and a loss.

#include <torch/optim.h>

#include <iostream>

#include "torch/libtorch/ranks.hpp"
#include "weft/torch/zero_optimizer.hpp"

using libtorch_tests::loss_of;
using libtorch_tests::Net;

/// On two ranks that are threads, whose exceptions it throws on: the program then fails.
inline void run(void (*snippet)(weft::Communicator, Net&)) {
  weft::run_as_threads(2, [&](weft::Communicator comm) {
    Net net;
    snippet(std::move(comm), net);
  });
}
