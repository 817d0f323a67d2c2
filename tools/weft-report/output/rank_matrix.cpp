// The ranks of each host, by what carries their data.

#include "common/page/markup.hpp"
#include "weft-report/output/run_sections.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

constexpr std::size_t most_ranks = 16384;

/// What carries the data of each rank to others, from the links of ranks.
std::map<std::size_t, nccl::Channels> by_rank(const RunFacts& run) {
  std::map<std::size_t, nccl::Channels> ranks;
  for (const Link& link : run.rank_links) {
    for (const std::size_t end : {link.from, link.to}) {
      nccl::Channels& sum = ranks[end];
      sum.p2p += link.channels.p2p;
      sum.shm += link.channels.shm;
      sum.socket += link.channels.socket;
      sum.rdma += link.channels.rdma;
      sum.rdma_direct += link.channels.rdma_direct;
    }
  }
  return ranks;
}

/// The slowest that carries data of a rank says how well it is off. A letter stands beside the colour.
std::pair<const char*, const char*> mark_of(const nccl::Channels& by) {
  if (by.socket > 0) return {"tcp", "T"};
  if (by.rdma > 0) return {"rdma", "R"};
  if (by.rdma_direct > 0) return {"gdr", "G"};
  if (by.shm > 0) return {"shm", "S"};
  if (by.p2p > 0) return {"p2p", "P"};
  return {"none", ""};
}

}  // namespace

PageSection rank_matrix(const RunFacts& run) {
  PageSection section{
      .heading = "Ranks by host",
      .note = text("The slowest that carries data of a rank: G GPUDirect RDMA, R RDMA through host memory, T "
                   "TCP, P direct between "
                   "GPUs, S shared memory of the host. A rank without a letter has no channel in the logs.",
                   run.hosts.size() > 1 ? " ≠ marks hosts that differ from most." : "")};
  const std::map<std::size_t, nccl::Channels> ranks = by_rank(run);
  const std::set<std::string> odd = odd_hosts(run);
  std::string rows;
  std::size_t count = 0;
  for (const HostFacts& host : run.hosts) {
    if (host.ranks.empty() || count > most_ranks) continue;
    rows += text("<tr><th scope=\"row\" class=\"words\">", odd.contains(host.host) ? "≠ " : "",
                 escaped(host.host.empty() ? "(not named)" : clean(host.host)), "</th>");
    for (const std::int64_t rank : host.ranks) {
      const auto found = ranks.find(static_cast<std::size_t>(rank));
      const auto [kind, letter] = mark_of(found == ranks.end() ? nccl::Channels{} : found->second);
      rows += text("<td class=", kind, '>', rank, "<b>", letter, "</b></td>");
      ++count;
    }
    rows += "</tr>\n";
  }
  if (rows.empty()) return section;
  section.html = text(
      "<div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"Ranks by host\"><table "
      "class=\"ranks\"><tbody>\n",
      rows, "</tbody></table></div>\n");
  return section;
}

}  // namespace weft::report
