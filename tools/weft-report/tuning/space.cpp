#include "weft-report/tuning/space.hpp"

#include <algorithm>
#include <cctype>
#include <limits>
#include <random>

#include "collectives/network/transports.hpp"
#include "weft/collectives/algorithm.hpp"
#include "weft/core/text.hpp"

namespace weft::report::tuning {
namespace {

using Taken = std::function<bool(const std::string&)>;

void add(Space& space, const Taken& taken, const char* variable, std::vector<std::string> values,
         std::string moot_with = {}) {
  if (!taken(variable)) space.variables.push_back({variable, std::move(values), std::move(moot_with)});
}

/// What NCCL can run somewhere (tuning.cc of 2.30.7, lines 290 to 310); its table of costs says what it can run here.
std::vector<std::string> nccl_algorithms(const Facts& facts) {
  const bool several = facts.nodes != 1;
  if (facts.collective == "broadcast" || facts.collective == "reduce")
    return {"ring/ll", "ring/ll128", "ring/simple"};
  if (facts.collective == "allgather" || facts.collective == "reducescatter") {
    std::vector<std::string> all{"ring/ll", "ring/ll128", "ring/simple", "nvls/simple"};
    if (several) all.insert(all.end(), {"pat/simple", "collnet_direct/simple"});
    return all;
  }
  if (facts.collective != "allreduce") return {};
  std::vector<std::string> all{"ring/ll",    "ring/ll128",  "ring/simple", "tree/ll",
                               "tree/ll128", "tree/simple", "nvls/simple"};
  if (several) all.insert(all.end(), {"nvls_tree/simple", "collnet_direct/simple", "collnet_chain/simple"});
  return all;
}

}  // namespace

std::string Setting::text() const {
  std::string words;
  for (const auto& [name, value] : variables)
    words += weft::text(words.empty() ? "" : ", ", name, '=', value);
  for (const Range& range : ranges)
    words +=
        weft::text(words.empty() ? "" : ", ", range.algorithm.empty() ? "its own choice" : range.algorithm,
                   " from ", range.from_bytes, " B");
  return words.empty() ? "nothing changed" : words;
}

std::vector<Choice> Space::choices(std::size_t most, std::uint64_t seed) const {
  std::vector<Choice> all{{}};
  for (const Variable& variable : variables) {
    const std::size_t before = all.size();
    for (std::size_t i = 0; i < before; ++i) {
      if (all[i].contains(variable.moot_with)) continue;
      for (const std::string& value : variable.values) {
        all.push_back(all[i]);
        all.back()[variable.name] = value;
      }
    }
  }
  all.erase(all.begin());
  if (all.size() <= most) return all;
  std::mt19937_64 random(seed);
  std::ranges::shuffle(all, random);
  std::stable_partition(all.begin(), all.end(), [](const Choice& one) { return one.size() == 1; });
  const auto alone =
      static_cast<std::size_t>(std::ranges::count_if(all, [](const Choice& one) { return one.size() == 1; }));
  all.resize(std::max(most, alone));
  return all;
}

std::uint64_t Space::size() const {
  return (choices(std::numeric_limits<std::size_t>::max(), 0).size() + 1) * (algorithms.size() + 1);
}

Space nccl_space(const Facts& facts, const Taken& taken) {
  Space space;
  if (facts.network == "Socket") {
    add(space, taken, "NCCL_SOCKET_NTHREADS", {"4"});
    add(space, taken, "NCCL_NSOCKS_PERTHREAD", {"4"});
  }
  if (facts.network == "IB") {
    add(space, taken, "NCCL_IB_QPS_PER_CONNECTION", {"2", "4"});
    add(space, taken, "NCCL_IB_SPLIT_DATA_ON_QPS", {"1"});
  }
  if (facts.nodes != 1) add(space, taken, "NCCL_CROSS_NIC", {"1"});
  add(space, taken, "NCCL_MIN_NCHANNELS", {"8", "16", "32"});
  add(space, taken, "NCCL_MAX_NCHANNELS", {"4"});
  add(space, taken, "NCCL_BUFFSIZE", {"1048576", "8388608"});
  add(space, taken, "NCCL_NTHREADS", {"256", "512"});
  const bool point_to_point = facts.collective == "alltoall" || facts.collective == "sendrecv";
  if (point_to_point && facts.nodes != 1) add(space, taken, "NCCL_P2P_NET_CHUNKSIZE", {"262144", "524288"});
  // A table is tried through the tuner: forced by NCCL_PROTO, LL128 would also run where it gives wrong data.
  const bool chosen = taken("NCCL_ALGO") || taken("NCCL_PROTO") || taken("NCCL_TUNER_PLUGIN");
  if (!chosen) space.algorithms = nccl_algorithms(facts);
  return space;
}

Space weft_space(const Facts& facts, const Taken& taken) {
  Space space;
  const auto over = [&](std::string transport) {
    for (char& one : transport) one = static_cast<char>(std::toupper(one));
    return facts.network.find(transport) != std::string::npos;
  };
  std::vector<std::string> others(detail::transport_names.begin(), detail::transport_names.end());
  const bool between_nodes = std::erase_if(others, over) > 0;
  if (!facts.under_mpi) std::erase(others, "mpi");
  if (between_nodes && !others.empty()) add(space, taken, "WEFT_TRANSPORT", std::move(others));
  add(space, taken, "WEFT_PROGRESS", {"inline", "thread"});
  if (over("ucx")) {
    for (const auto& [name, values] :
         std::map<std::string, std::vector<std::string>>{{"UCX_RNDV_THRESH", {"8192", "262144"}},
                                                         {"UCX_TCP_TX_SEG_SIZE", {"65536"}},
                                                         {"UCX_TCP_SNDBUF", {"1048576"}}})
      add(space, taken, name.c_str(), values, "WEFT_TRANSPORT");
  }
  const auto kind = std::ranges::find(collective_names, facts.collective);
  if (!between_nodes || kind == collective_names.end() || taken("WEFT_ALGORITHMS")) return space;
  const auto collective = static_cast<Collective>(kind - collective_names.begin());
  for (std::size_t i = 0; i < algorithm_names.size(); ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    if (!carries_out(algorithm, collective) || (algorithm == Algorithm::mpi && !facts.under_mpi)) continue;
    if (reduces(collective) && !facts.any_order && !keeps_rank_order(algorithm)) continue;
    space.algorithms.emplace_back(name(algorithm));
  }
  return space;
}

}  // namespace weft::report::tuning
