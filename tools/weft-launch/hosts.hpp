#pragma once
// The file of hosts, as mpirun and DeepSpeed have it: a host a line, "name" or "name slots=8", # begins a comment. "address=10.0.0.7" is where
// the other hosts reach it, if not by its name.

#include <string>
#include <vector>

#include "local_ranks.hpp"

namespace weft::launch {

struct Host {
  std::string name;
  int slots = 0;          ///< how many ranks it takes; 0: the file does not say
  std::string address{};  ///< empty: its name
};

/// @throws Error (usage) with the line that makes no sense; (system) where the file cannot be read
std::vector<Host> read_hosts(const std::string& path);

/// The ranks that each host has, consecutive, in the file's order; a host that gets none has a count of 0. Without slots in the
/// file hosts share evenly.
/// @param ranks 0: as many as there are slots. @throws Error (usage) if slots do not suffice
std::vector<Share> share_ranks(const std::vector<Host>& hosts, int ranks);

}  // namespace weft::launch
