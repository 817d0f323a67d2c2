#pragma once
// The seam between the front and what moves bytes: an operation is a value, a backend turns it into a Task.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/backend/transfers.hpp"
#include "weft/collectives/algorithm.hpp"
#include "weft/collectives/reduce_op.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/error.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

/// What one rank does with parts, which every rank of several nodes has one of: in a reduce_scatter it sums some over its node for their owners,
/// in an all_gather it gets them from there for its node.
struct NodeParts {
  std::vector<int> of;       ///< whose parts, node by node; this rank's own among them
  std::vector<int> with;     ///< by node, which rank has this one's part there; itself on its own
  std::vector<int> holders;  ///< by rank, which place of this node has its part
};

/// What all ranks do together. `count` is the unit the operation works in: elements of one rank's part for
/// reduce_scatter, all_gather and all_to_all, of the whole buffer otherwise.
struct Operation {
  Collective kind = Collective::barrier;
  std::uint64_t number = 0;
  ConstView in{};
  View out{};
  std::int64_t count = 0;
  DataType dtype = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int slices = 0;
  const NodeParts* parts = nullptr;    ///< of reduce_parts and gather_parts; lives longer
  double divisor = 0;                  ///< of avg; 0: the number of ranks
  std::chrono::nanoseconds timeout{};  ///< of waiting for others, once it has begun; 0: the backend's own

  /// "all_reduce #3 of 10 f32 (sum, root 0)"
  std::string text() const {
    return weft::text(name(kind), " #", number, " of ", count, " ", dtype, " (", op, ", root ", root, ")");
  }
  bool agrees_with(const Operation& other) const {
    return kind == other.kind && count == other.count && dtype == other.dtype && op == other.op &&
           root == other.root && number == other.number;
  }
  bool reduces() const { return weft::reduces(kind); }
  /// The larger of its buffers.
  std::uint64_t bytes(int ranks) const {
    const bool has_parts = kind == Collective::reduce_scatter || kind == Collective::all_gather ||
                           kind == Collective::all_to_all;
    return static_cast<std::uint64_t>(count) * size_of(dtype) *
           static_cast<std::uint64_t>(has_parts ? ranks : 1);
  }
};

/// What every rank sees of every other without exchanging messages: for operations of devices, whose
/// libraries say neither which rank is missing nor that ranks disagree. Any thread may call.
class PeerStatus {
 public:
  virtual ~PeerStatus() = default;
  /// This rank has issued the operation; the newest few are remembered.
  virtual void issued(const Operation& operation) = 0;
  /// What another rank issued under the same number, if that differs. @throws Error (mismatch) naming both
  virtual void compare(const Operation& operation) const = 0;
  /// "rank 1 (its last device operation is #3), rank 2 (...)": who has not come to this number; may be empty
  virtual std::string behind(std::uint64_t number) const = 0;
  /// "rank 1 (process 77) has died": a rank that will not come to `number`, with what became of it; what it failed of, where ranks
  /// disagree.
  virtual std::optional<Error> lost(std::uint64_t number) const = 0;
  /// Whether ranks do not see each other's memory and have to tell each other, also while their devices are idle.
  virtual bool needs_telling() const { return false; }
  /// Tells the others how far this rank is, and hears of them. From a thread that issues nothing, every few milliseconds while
  /// operations are under way and now and then else. @param is_active whether some are. Does not throw
  virtual void tell(bool /*is_active*/) {}
};

/// Short messages between the ranks of several nodes, beside the data's path. Any thread may call.
class SideChannel {
 public:
  virtual ~SideChannel() = default;
  /// To all other ranks; does not wait for them.
  virtual void post(const std::string& message) = 0;
  struct Message {
    int rank;
    std::string body;
  };
  /// What has come since the last time, in the order of each rank.
  virtual std::vector<Message> collect() = 0;
};

/// The order in which a rank hands operations over to its device: that of their calls, across the streams and the
/// communicators that share it. NCCL needs the same order on every rank, and a stream that waits for an event of the host is held up on
/// one rank and not on another. Any thread may call.
class DeviceOrder {
 public:
  /// Lives as long as its operation has not been handed over.
  struct Turn : Recycled {
    Turn(std::weak_ptr<StreamState> of, std::string_view name, std::uint64_t count)
        : stream(std::move(of)), label(name), number(count) {}
    std::weak_ptr<StreamState> stream;
    std::string_view label;  ///< and the number, of its operation: for messages
    std::uint64_t number;
  };
  /// The next operation's. @returns the turn before it
  std::weak_ptr<Turn> take(const std::shared_ptr<Turn>& next) {
    const std::lock_guard lock(mutex_);
    return std::exchange(last_, next);
  }

 private:
  std::mutex mutex_;
  std::weak_ptr<Turn> last_;
};

/// Moves bytes for one rank of one communicator. Knows nothing of streams, numbering or tracing; the front
/// calls it with checked arguments, from one thread at a time. Its tasks may run on any threads, one after
/// the other; where it overlaps() collectives, only groups of transfers that share a peer, a direction and a tag
/// do that.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string name() const = 0;
  /// The task that carries it out, for `stream` alone, which is of the memory's device.
  virtual std::unique_ptr<Task> start(const Operation& operation, const Stream& stream) = 0;
  /// The same when its turn on the stream has come, in the caller's thread: carries out at once what need not
  /// wait. Null: that was all.
  virtual std::unique_ptr<Task> begin(const Operation& operation, const Stream& stream) {
    return start(operation, stream);
  }
  virtual std::unique_ptr<Task> start(Transfers transfers, const Stream& stream) = 0;
  virtual MessageLimits message_limits() const { return {}; }
  /// @param contents `any` may be zeroed all the same
  virtual Buffer allocate(DataType dtype, std::int64_t count, Contents contents) = 0;
  /// Memory of its device that others allocated. @returns its registration
  virtual std::shared_ptr<const void> register_memory(View /*memory*/) { return nullptr; }
  /// Whether the node's other ranks reach this memory without a copy.
  virtual bool reaches(const ConstView&) const { return false; }
  /// Whose memory it allocates. It takes memory of the host in any case.
  virtual Device device() const { return {}; }
  /// Null where operations need no order of their own.
  virtual DeviceOrder* device_order() { return nullptr; }
  /// Where ranks tell each other how far they are beside the data's path; null where there is no such place.
  virtual PeerStatus* peer_status() { return nullptr; }
  /// "rank 1 (its last collective is #3)": who has not come to the collective with this number, where that
  /// can be seen; for messages.
  virtual std::string late(std::uint64_t /*number*/) const { return {}; }
  /// This rank has come to the collective with this number, of which the operations here are steps: for what late() and errors say.
  virtual void come_to(std::uint64_t /*number*/) {}
  /// Null where ranks see each other without one.
  virtual SideChannel* side_channel() { return nullptr; }
  /// Whether collectives of several streams may be under way at once. Then a thread that waits for one
  /// operation must progress all that have begun, or two ranks that wait in opposite orders wait for ever.
  virtual bool overlaps() const { return false; }
  /// Whether tasks may run on another thread than the one that made the backend.
  virtual bool any_thread() const { return true; }
  /// A backend for `members` (ranks of this one, this rank among them), who meet at `rendezvous`. Collective.
  virtual std::shared_ptr<Backend> split(const std::vector<int>& members,
                                         const std::shared_ptr<Rendezvous>& rendezvous) = 0;
  /// How it would be carried out, in words; `operation` needs no memory.
  virtual std::string explain(const Operation& operation) const = 0;
  /// Leaves a number where the node's other ranks see it; a store. Any thread.
  virtual void show(std::uint64_t /*number*/) {}
  /// What a rank of this node has shown last, 0 before; none where its memory is not seen from here.
  virtual std::optional<std::uint64_t> shown(int /*rank*/) const { return std::nullopt; }
  /// The wire ledger: payload bytes that this rank has handed to the network between nodes.
  virtual std::uint64_t network_bytes() const { return 0; }
  /// Hears of errors that are found beside the operations, by a watchdog's thread. Before the first
  /// operation.
  virtual void on_error(std::function<void(const Error&)> /*hear*/) {}
  /// Tells the other ranks, where it can, that this one will take part no longer.
  virtual void give_up(const Error& error) noexcept = 0;
};

}  // namespace weft::detail
