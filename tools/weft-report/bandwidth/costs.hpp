#pragma once
// The costs by which NCCL chooses: for each collective, algorithm and protocol a latency and a bandwidth, as NCCL's log states them
// (tuning_table.hpp), and from them the time of a size. NCCL takes what is fastest. Pure.
//
//   microseconds(table.costs, Collective::all_reduce, Algorithm::ring, Protocol::simple, 1 << 30, {.ranks = 16, .nodes = 2})

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

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

/// What NCCL corrects the costs by.
struct Communicator {
  NcclVersion version{};
  int ranks = 2;
  int nodes = 1;
  int capability = 90;  ///< the lowest of the GPUs
  bool on_x86 = true;
  int channels = 16;
};

/// What a tree loses at this size: 1 for nothing. @param sizes how many powers of two from 64 on lose anything
double tree_correction(Protocol protocol, std::int64_t bytes, std::size_t sizes = 23);

/// Microseconds of one operation alone; below 0: never chosen.
double microseconds(const CostTable& costs, Collective c, Algorithm a, Protocol p, std::int64_t bytes,
                    const Communicator& of);

struct Choice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  double microseconds = -1;  ///< below 0: nothing can be chosen
};
/// The fastest, which is NCCL's choice.
Choice choose(const CostTable& costs, Collective c, std::int64_t bytes, const Communicator& of);

}  // namespace weft::report::bandwidth
