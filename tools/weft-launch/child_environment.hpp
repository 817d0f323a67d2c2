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

/// The place of a rank in the job and on its host.
struct Placement {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
};

/// NAME=VALUE lines: `inherited` without variables that name a rank, and those of this rank.
/// @param token WEFT_TOKEN, if none is inherited
std::vector<std::string> child_environment(const std::vector<std::string>& inherited, const Placement& place,
                                           const std::string& rendezvous, const std::string& token);

}  // namespace weft::launch
