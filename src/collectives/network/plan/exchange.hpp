#pragma once
// Collectives between nodes as flows of data between pairs, and reductions that begin as soon as the first
// bytes have arrived.
//
// A plan is a value; a wire carries it out. A flow is sent and received from its beginning to its end,
// in segments of which several are in flight; it may wait for the same bytes of another flow, for those
// that a reduction makes, or for the end of others. A collective is cut into slices with an owner each; the sum of a slice travels to
// its owner along a tree, and the result along one to the others, following byte by byte. Which trees, is the
// algorithm: pairwise (stars: the owner sums in rank order, so bits do not depend on size and slicing), ring
// (chains), halving (binomial trees) and tree (one slice, binomial). Of a short sum every rank may collect all inputs instead, straight
// (small) or by doubling. docs/algorithms.md counts steps and bytes.

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {

/// One direction of a pair. Flows of one pair, direction and stage follow each other in the plan's order.
struct Flow {
  int peer = 0;
  bool sends = false;
  int stage = 0;                   ///< of a group: the message's tag
  std::size_t message = 0;         ///< of a group: its place in it
  const std::byte* out = nullptr;  ///< where it sends from
  std::byte* in = nullptr;         ///< where it receives into
  std::size_t bytes = 0;
  std::optional<std::size_t> after{};    ///< the flow whose same bytes must be complete before
  bool made = false;                     ///< a reduction makes its bytes
  std::vector<std::size_t> after_all{};  ///< flows that must be over before it begins
};

/// result[i] = op over sources of source[i], as far as all `from` have arrived, or once they are over; then `into` may leave.
struct Reduction {
  std::vector<const std::byte*> sources{};
  std::byte* result = nullptr;
  std::size_t bytes = 0;
  std::vector<std::size_t> from{};
  std::vector<std::size_t> into{};
  ReduceOp op = ReduceOp::sum;
  double divisor = 0;          ///< of avg
  bool once_all_over = false;  ///< where a flow of `from` brings several sources
};

struct ExchangePlan {
  std::vector<Flow> flows;
  std::vector<Reduction> reductions;
  std::function<void()> begin;  ///< what is to be done first; may be empty
  std::vector<Buffer> scratch;
  std::shared_ptr<GroupProgress> progress{};  ///< of a group
  DataType dtype = DataType::u8;
};

/// Memory for what arrives, kept from one exchange to the next: fresh memory is zeroed and faulted in page by
/// page, which takes longer than a fast network does. Exchanges of one communicator follow each other, so
/// what is kept is what the largest of them needed. Any thread may call.
class ScratchPool {
 public:
  /// At least so many bytes, not zeroed: the smallest kept buffer that is large enough, or a new one.
  Buffer take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto fits = std::ranges::lower_bound(kept_, bytes, {}, &Buffer::size_bytes);
    if (fits == kept_.end()) return Buffer::on_host(DataType::u8, static_cast<std::int64_t>(bytes));
    Buffer buffer = std::move(*fits);
    kept_.erase(fits);
    return buffer;
  }
  void give_back(std::vector<Buffer> buffers) {
    const std::lock_guard lock(mutex_);
    for (Buffer& buffer : buffers) {
      const auto place = std::ranges::lower_bound(kept_, buffer.size_bytes(), {}, &Buffer::size_bytes);
      kept_.insert(place, std::move(buffer));
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Buffer> kept_;  // by growing size
};

inline constexpr int exchange_stages = 2;

/// @param algorithm that carries the operation out, and is not MPI's own
/// @param pool where its scratch comes from, and may go back to
ExchangePlan plan_exchange(const Operation& operation, Algorithm algorithm, int rank, int size,
                           ScratchPool& pool);
/// What a rank sends to itself is copied in the exchange's begin: wires do not reach their own rank.
/// @throws Error (usage) unless each has its receive in the same group; (mismatch) where the two differ
ExchangePlan plan_exchange(const Transfers& transfers, int rank);

}  // namespace weft::detail
