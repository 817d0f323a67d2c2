#pragma once
// What a rank finds in its environment: weft's own variables, RANK and its kin for programs that read those,
// and nothing of a launcher further out.

#include <string>
#include <string_view>
#include <vector>

namespace weft::launch {

/// Whether an inherited variable says who this process is and would contradict what weft-launch says.
bool names_a_rank(std::string_view variable);

/// NAME=VALUE lines: `inherited` without what names a rank, and this rank's own.
std::vector<std::string> child_environment(const std::vector<std::string>& inherited, int rank, int size,
                                           const std::string& rendezvous);

}  // namespace weft::launch
