#include "weft-report/bandwidth/costs.hpp"

#include <algorithm>
#include <bit>

namespace weft::report::bandwidth {
namespace {

constexpr std::array<std::string_view, collectives> collective_names{"Broadcast", "Reduce", "AllGather",
                                                                     "ReduceScatter", "AllReduce"};
constexpr std::array<std::string_view, algorithms> algorithm_names{
    "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
constexpr std::array<std::string_view, protocols> protocol_names{"LL", "LL128", "Simple"};

std::size_t index(auto of) {
  return static_cast<std::size_t>(of);
}

/// NCCL, src/graph/tuning.cc: treeCorrectionFactor. By powers of two from 64 bytes on.
constexpr std::array<std::array<double, 24>, protocols> tree_losses{
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}}};

}  // namespace

std::string_view name(Collective collective) {
  return collective_names[index(collective)];
}
std::string_view name(Algorithm algorithm) {
  return algorithm_names[index(algorithm)];
}
std::string_view name(Protocol protocol) {
  return protocol_names[index(protocol)];
}

double tree_correction(Protocol protocol, std::int64_t bytes, std::size_t sizes) {
  const auto units = static_cast<std::uint64_t>(bytes) >> 6U;
  if (bytes < 64) return 1;
  const auto log = static_cast<std::size_t>(std::bit_width(units) - 1);
  const auto& losses = tree_losses[static_cast<std::size_t>(protocol)];
  return log < std::min(sizes, losses.size()) ? losses[log] : 1;
}

double microseconds(const CostTable& costs, Collective c, Algorithm a, Protocol p, std::int64_t bytes,
                    const Communicator& of) {
  using enum Algorithm;
  const bool reduces_all = c == Collective::all_reduce;
  Cost cost = costs.at(c, a, p);
  if (!(cost.bandwidth > 0)) return -1;
  const bool corrected = reduces_all || of.version < NcclVersion{{2, 23, 0}};
  if (a == tree && corrected) cost.bandwidth *= tree_correction(p, bytes);
  if (a == nvls_tree && reduces_all && of.on_x86 && of.capability >= 100 &&
      of.version >= NcclVersion{{2, 29, 0}})
    cost.bandwidth *= tree_correction(p, bytes, 24);
  const std::int64_t parts = std::int64_t{std::max(of.channels, 1)} * std::max(of.ranks, 1);
  if (a == ring && p == Protocol::simple && reduces_all && of.nodes > 1 && bytes / parts >= 64)
    cost.latency *= of.capability < 80 ? 1.9 : 1.4;
  return cost.latency + static_cast<double>(bytes) / (1000 * cost.bandwidth);
}

Choice choose(const CostTable& costs, Collective c, std::int64_t bytes, const Communicator& of) {
  Choice best;
  for (std::size_t i = 0; i < algorithms * protocols; ++i) {
    const auto a = static_cast<Algorithm>(i / protocols);
    const auto p = static_cast<Protocol>(i % protocols);
    const double time = microseconds(costs, c, a, p, bytes, of);
    if (time >= 0 && (best.microseconds < 0 || time < best.microseconds)) best = {a, p, time};
  }
  return best;
}

}  // namespace weft::report::bandwidth
