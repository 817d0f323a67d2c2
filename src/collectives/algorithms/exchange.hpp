#pragma once
// Collectives between nodes as flows of data between pairs, and reductions that begin as soon as the first
// bytes have arrived.
//
// A plan is a value; a wire (MPI) carries it out. A flow is sent and received from its beginning to its end,
// in segments of which several are in flight; it may wait for the same bytes of another flow, or for those
// that a reduction makes. A collective is cut into slices with an owner each; the sum of a slice travels to
// its owner along a tree, and the result along one to the others, following byte by byte. Which trees, is the
// algorithm: pairwise (stars: the owner sums in rank order, so bits do not depend on size and slicing), ring
// (chains), halving (binomial trees) and tree (one slice, binomial). docs/algorithms.md counts steps and
// bytes.

#include <functional>
#include <optional>
#include <vector>

#include "collectives/algorithms/scratch_pool.hpp"
#include "collectives/backend.hpp"

namespace weft::detail {

/// One direction of a pair. Flows of one pair, direction and stage follow each other in the plan's order.
struct Flow {
  int peer = 0;
  bool sends = false;
  int stage = 0;
  const std::byte* out = nullptr;  ///< where it sends from
  std::byte* in = nullptr;         ///< where it receives into
  std::size_t bytes = 0;
  std::optional<std::size_t> after{};  ///< the flow whose same bytes must be complete before
  bool made = false;                   ///< a reduction makes its bytes
};

/// result[i] = op over sources of source[i], as far as all `from` have arrived; then `into` may leave.
struct Reduction {
  std::vector<const std::byte*> sources{};
  std::byte* result = nullptr;
  std::size_t bytes = 0;
  std::vector<std::size_t> from{};
  std::vector<std::size_t> into{};
  ReduceOp op = ReduceOp::sum;
  int averaged = 0;  ///< what avg divides by
};

struct ExchangePlan {
  std::vector<Flow> flows;
  std::vector<Reduction> reductions;
  std::function<void()> begin;  ///< what is to be done first; may be empty
  std::vector<Buffer> scratch;
  DataType dtype = DataType::u8;
};

inline constexpr int exchange_stages = 2;

/// @param algorithm that carries the operation out, and is not MPI's own
/// @param pool where its scratch comes from, and may go back to
ExchangePlan plan_exchange(const Operation& operation, Algorithm algorithm, int rank, int size,
                           ScratchPool& pool);
ExchangePlan plan_exchange(const std::vector<Transfer>& transfers);

}  // namespace weft::detail
