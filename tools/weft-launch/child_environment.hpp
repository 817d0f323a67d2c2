#pragma once
// The environment of a rank: weft's own variables, RANK and related ones for programs that read those, and
// none of an outer launcher.

#include <string>
#include <string_view>
#include <vector>

namespace weft::launch {

/// Whether an inherited variable names a rank and could contradict weft-launch.
bool names_a_rank(std::string_view variable);

/// 64 random digits.
std::string new_token();

/// NAME=VALUE lines: `inherited` without variables that name a rank, and those of this rank.
/// @param token WEFT_TOKEN, where none is inherited
std::vector<std::string> child_environment(const std::vector<std::string>& inherited, int rank, int size,
                                           const std::string& rendezvous, const std::string& token);

}  // namespace weft::launch
