#include "weft/collectives/topology.hpp"

#include <algorithm>
#include <map>

#include "weft/core/error.hpp"

namespace weft {

Topology::Topology(const std::vector<std::string>& hosts) {
  std::map<std::string, int> node_by_host;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [entry, fresh] = node_by_host.try_emplace(hosts[rank], nodes());
    if (fresh) ranks_of_.emplace_back();
    node_of_.push_back(entry->second);
    ranks_of_[static_cast<std::size_t>(entry->second)].push_back(static_cast<int>(rank));
  }
}

void Topology::refuse(int number, int count, const char* what) {
  throw Error(ErrorKind::usage, text(what, ' ', number, " of ", count), text(what, "s are 0 to ", count - 1));
}

int Topology::local_rank(int rank) const {
  const std::vector<int>& neighbours = ranks_of(node_of(rank));
  return static_cast<int>(std::ranges::find(neighbours, rank) - neighbours.begin());
}

Topology Topology::of(const std::vector<int>& members) const {
  std::vector<std::string> hosts;
  hosts.reserve(members.size());
  for (const int member : members) hosts.push_back(std::to_string(node_of(member)));
  return Topology(hosts);
}

}  // namespace weft
