#pragma once
// Ranks as threads that believe to be on several nodes: shared memory within each, TCP over loopback between them.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/shm/threads_backend.hpp"
#include "support/draw.hpp"
#include "weft/weft.hpp"

namespace weft::test {

/// @param nodes what each rank's node is called @param more of their environment
inline void run_on_nodes(const std::vector<std::string>& nodes, const std::function<void(Communicator)>& body,
                         const Environment::Values& more = {}) {
  const auto store = make_memory_store();
  const int ranks = static_cast<int>(nodes.size());
  detail::on_threads(ranks, [&](int rank) {
    Environment::Values values{{"WEFT_HOST_ID", nodes[static_cast<std::size_t>(rank)]},
                               {"WEFT_TRANSPORT", "tcp"},
                               {"WEFT_INTERFACE", "lo"},
                               {"WEFT_FLIGHT_DIR", "off"}};
    for (const auto& [name, value] : more) values[name] = value;
    const auto rendezvous = make_store_rendezvous(store, "nodes", rank, ranks);
    body(connect(World::over(rendezvous, {}, Environment(std::move(values)))));
    (void)rendezvous->all_gather("", "the end", Deadline::in(std::chrono::seconds(100)));
  });
}

/// 1 to 4 nodes of 1 to 3 ranks each: one node after the other, in turn, or in any order.
inline std::vector<std::string> drawn_layout(Draw& draw) {
  std::vector<std::string> nodes;
  std::vector<int> left;
  for (int node = 1 + draw.below(4); node > 0; --node) left.push_back(1 + draw.below(3));
  const int placement = draw.below(3);
  for (std::size_t at = 0; left != std::vector<int>(left.size(), 0);) {
    if (placement == 1 || (placement == 0 && left[at] == 0)) at = (at + 1) % left.size();
    if (placement == 2) at = static_cast<std::size_t>(draw.below(static_cast<int>(left.size())));
    if (left[at] == 0) continue;
    --left[at];
    nodes.push_back(text("node-", at));
  }
  return nodes;
}

}  // namespace weft::test
