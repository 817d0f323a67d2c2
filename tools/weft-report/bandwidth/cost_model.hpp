#pragma once
// NCCL's cost model, derived again: for each collective, algorithm and protocol a latency and a bandwidth, and from them the time of a size.
// NCCL takes what the model says is fastest. The formulas are those of NCCL 2.18 to 2.30, src/graph/tuning.cc; cost_constants.hpp has their
// numbers. Pure.
//
//   const CostTable costs = model({.version = {{2, 28, 9}}, .ranks = 16, .nodes = 2, .capability = 90, .graphs = graphs});
//   microseconds(costs, Collective::all_reduce, Algorithm::ring, Protocol::simple, 1 << 30, machine)
//
// WRONG: figures of a job with a tuner plug-in. It changes times, and since NCCL 2.28 the constants.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft-report/bandwidth/links.hpp"
#include "weft-report/env/nccl_version.hpp"

namespace weft::report::bandwidth {

enum class Collective : std::uint8_t { broadcast, reduce, all_gather, reduce_scatter, all_reduce };
enum class Algorithm : std::uint8_t { tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat };
enum class Protocol : std::uint8_t { ll, ll128, simple };
inline constexpr std::size_t collectives = 5;
inline constexpr std::size_t algorithms = 7;
inline constexpr std::size_t protocols = 3;

/// As NCCL prints them: "AllReduce", "NVLSTree", "LL128".
std::string_view name(Collective collective);
std::string_view name(Algorithm algorithm);
std::string_view name(Protocol protocol);

struct Cost {
  double latency = 0;    ///< microseconds
  double bandwidth = 0;  ///< GB/s of algbw; 0: never chosen
};

/// The costs of one communicator.
struct CostTable {
  std::array<Cost, collectives * algorithms * protocols> costs{};
  Cost& at(Collective c, Algorithm a, Protocol p) { return costs[index(c, a, p)]; }
  const Cost& at(Collective c, Algorithm a, Protocol p) const { return costs[index(c, a, p)]; }
  static std::size_t index(Collective c, Algorithm a, Protocol p) {
    return (static_cast<std::size_t>(c) * algorithms + static_cast<std::size_t>(a)) * protocols +
           static_cast<std::size_t>(p);
  }
};

enum class Processor : std::uint8_t { intel, amd, mixed, other };

/// What NCCL knows of a communicator when it fills the table.
struct Machine {
  NcclVersion version{};
  int ranks = 2;
  int nodes = 1;
  int capability = 90;  ///< the lowest of the GPUs
  Processor processor = Processor::intel;
  int channels = 16;  ///< of the communicator
  /// By algorithm. NVLS and NVLSTree have one, PAT has the ring's. An algorithm without one has no channels.
  std::array<Graph, algorithms> graphs{};
};

/// Without CollNet, whose in-network sums few networks have, and with the environment's NCCL_ALGO and NCCL_PROTO unset.
/// @throws Error (usage) for a version before 2.18 or after 2.30
CostTable model(const Machine& machine);

/// Microseconds of one operation alone; below 0: never chosen.
double microseconds(const CostTable& costs, Collective c, Algorithm a, Protocol p, std::int64_t bytes,
                    const Machine& machine);

struct Choice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  double microseconds = -1;  ///< below 0: nothing can be chosen
};
/// The fastest by the model, NCCL's choice.
Choice choose(const CostTable& costs, Collective c, std::int64_t bytes, const Machine& machine);

}  // namespace weft::report::bandwidth
