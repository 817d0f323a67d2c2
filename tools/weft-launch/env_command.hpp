#pragma once
// `weft-launch env`: who this process would be, and who says so.

#include <iosfwd>

#include "options.hpp"
#include "weft/core/env.hpp"

namespace weft::launch {

/// @throws Error (usage) when the claims do not hold, after printing those that could be read
void print_environment(const EnvOptions& options, const Environment& environment, std::ostream& out);

}  // namespace weft::launch
