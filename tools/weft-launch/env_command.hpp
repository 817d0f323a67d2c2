#pragma once
// `weft-launch env`: the rank, size and node that weft would detect in this environment, and from which
// variables.

#include "options.hpp"
#include "weft/core/env.hpp"

namespace weft::launch {

/// @throws Error (usage) if the variables contradict each other, after printing those that could be read
void print_environment(const EnvOptions& options, const Environment& environment);

}  // namespace weft::launch
