#pragma once
// `weft-launch lint`: what is wrong with manifests of Kubernetes, with line and fix.

#include <string>
#include <vector>

namespace weft::launch {

/// @returns the exit status: 0 nothing, 1 warnings, 2 something critical. @throws Error (usage)
int run_lint(const std::vector<std::string>& arguments);

}  // namespace weft::launch
