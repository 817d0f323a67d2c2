#pragma once
// How collectives are carried out between nodes, and who chooses.
//
// Within a node there is one way for each size and kind of memory. Between nodes several algorithms do the
// same work with other steps, and a table says which one from how many bytes on. weft has one built in;
// `weft-bench --tune` measures another. docs/algorithms.md describes every algorithm, and
// `Communicator::explain` says which one an operation would take and why.
//
// Sums between nodes keep the order of nodes unless `ReductionOrder::any` is asked for, which lets rings, halving,
// trees and MPI's own collectives sum. The last bits of a result then depend on size, algorithm and rank
// count, and 16-bit types are rounded at every step. All ranks still hold the same bits where weft sums.
// Means of integers and of 16-bit types always keep it.
//
//   auto comm = connect(world, {.order = ReductionOrder::any, .algorithms = AlgorithmTable::read("tuned")});
//
// WRONG: different tables on different ranks; connect() refuses. One that is given by WEFT_ALGORITHMS is read
// by rank 0 and told to all.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  barrier,
  // Steps of operations over nodes, which users do not issue. The first `slices` ranks reduce a slice each
  // into their own output, and every rank collects the slices. Or every rank reduces some ranks' parts, or
  // has some and collects the others.
  reduce_slices,
  gather_slices,
  reduce_parts,
  gather_parts
};

inline constexpr std::array<std::string_view, 11> collective_names{"all_reduce",
                                                                   "reduce_scatter",
                                                                   "all_gather",
                                                                   "broadcast",
                                                                   "reduce",
                                                                   "all_to_all",
                                                                   "barrier",
                                                                   "sum within the node",
                                                                   "gathering within a node",
                                                                   "sum of parts",
                                                                   "gathering of parts"};
constexpr std::string_view name(Collective kind) {
  return collective_names[static_cast<std::size_t>(kind)];
}
/// Those with a sum in them.
constexpr bool reduces(Collective kind) {
  return kind == Collective::all_reduce || kind == Collective::reduce || kind == Collective::reduce_scatter ||
         kind == Collective::reduce_slices || kind == Collective::reduce_parts;
}

/// Between nodes.
enum class Algorithm : std::uint8_t { small, doubling, pairwise, ring, halving, tree, mpi, dissemination };

inline constexpr std::array<std::string_view, 8> algorithm_names{
    "small", "doubling", "pairwise", "ring", "halving", "tree", "mpi", "dissemination"};
constexpr std::string_view name(Algorithm algorithm) {
  return algorithm_names[static_cast<std::size_t>(algorithm)];
}
/// Whether there is such a way to do it.
bool carries_out(Algorithm algorithm, Collective kind);
/// Whether its reductions are ((r0 + r1) + r2) + ....
constexpr bool keeps_rank_order(Algorithm algorithm) {
  return algorithm == Algorithm::small || algorithm == Algorithm::doubling ||
         algorithm == Algorithm::pairwise;
}

enum class ReductionOrder : std::uint8_t { rank, any };
constexpr std::string_view name(ReductionOrder order) {
  return order == ReductionOrder::rank ? "rank" : "any";
}

/// From how many bytes on which algorithm is taken. A value; text is one row a line:
///
///   # order  collective  ranks  from_bytes  algorithm
///   any      all_reduce  4      65536       ring
class AlgorithmTable {
 public:
  struct Row {
    ReductionOrder order;
    Collective collective;
    int ranks;  ///< that exchange: nodes, where shared memory does the rest; 0: any number
    std::uint64_t from_bytes;
    Algorithm algorithm;

    std::string text() const;
    bool operator==(const Row&) const = default;
  };

  /// The one that weft has for everything that no other says.
  static const AlgorithmTable& built_in();
  /// @param source for messages. @throws Error (usage) naming line, word and what is allowed
  static AlgorithmTable parse(std::string_view text, const std::string& source);
  /// @throws Error (usage) when there is no such file
  static AlgorithmTable read(const std::string& path);

  /// @throws Error (usage) when the algorithm cannot do that, or not in that order
  void add(const Row& row);
  const std::vector<Row>& rows() const { return rows_; }
  std::string text() const;
  /// The row with the most bytes up to `bytes`, of those for this very number of ranks if there are any.
  std::optional<Row> find(ReductionOrder order, Collective collective, int ranks, std::uint64_t bytes) const;

 private:
  std::vector<Row> rows_;
};

}  // namespace weft
