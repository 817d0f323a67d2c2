#pragma once
// What stands behind Communicator: checks, numbers, records, and calls the backend.

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>

#include "collectives/communicator/message_chains.hpp"
#include "collectives/communicator/operations_under_way.hpp"
#include "collectives/diagnosis/counters.hpp"
#include "collectives/diagnosis/operation_log.hpp"
#include "collectives/diagnosis/watchdog.hpp"
#include "core/memory/per_process.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/stream_trace.hpp"

namespace weft::detail {

/// Where the span of a traced operation begins.
struct SpanBegin {
  Trace::Clock::time_point at;
  std::uint64_t network_bytes;  ///< sent until then
};

/// What is known of an operation from its call to its end.
struct Issued {
  std::string_view label;  ///< one of the names that last for ever
  std::uint64_t number = 0;
  std::uint64_t place = 0;  ///< in the log
  bool is_collective = false;
  std::optional<Operation> watched{};  ///< where a watchdog compares it
  bool on_device = false;              ///< over when its stream has passed it, long after its task
  std::chrono::nanoseconds timeout{};
  std::optional<SpanBegin> span{};  ///< set when the host begins it, where there is a trace
};

/// What a rank sends to others by an operation's own count, in bytes.
struct Payload {
  std::uint64_t whole = 0;
  std::uint64_t shared = 0;  ///< of which all but this rank's part, (N-1)/N, goes to others
};

/// What a communicator is called in the flight record, and where that is.
struct Identity {
  std::string name = "world";
  std::vector<int> ranks{};  ///< of the world, by rank; empty: the same
  std::shared_ptr<FlightRecorder> recorder{};
  std::shared_ptr<Counters> counters{};  ///< of who was split; null: its own
  std::shared_ptr<OperationsUnderWay> under_way = std::make_shared<OperationsUnderWay>();  ///< likewise
};

class CommunicatorState : public std::enable_shared_from_this<CommunicatorState> {
 public:
  CommunicatorState(std::shared_ptr<Backend> backend, std::shared_ptr<Rendezvous> rendezvous,
                    Topology topology, std::chrono::nanoseconds timeout, std::shared_ptr<Trace> trace,
                    Identity identity);
  ~CommunicatorState();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Topology& topology() const { return topology_; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  void timeout(std::chrono::nanoseconds duration) { timeout_ = duration; }
  Backend& backend() { return *backend_; }
  std::uint64_t wire_bytes() const { return sent_; }

  /// Checks, numbers and submits a collective.
  Work issue(Operation&& operation, const Stream& stream, Payload payload);
  Work issue(std::vector<Transfer> transfers, const Stream& stream);
  std::optional<Communicator> split(std::optional<int> color, int key);

  /// Called by an operation that failed: later ones fail with the same error, and peers hear of it.
  void fail(const Error& error) noexcept;
  /// The process ends by exit(), and this is still there: peers that wait for this rank hear of it.
  void exits(int status) noexcept;
  /// @throws the error that broke the communicator, if one has; Error (usage) in a child that was forked since
  void expect_intact() const;
  /// False in a child that was forked since. A rank alone shares nothing, and goes on there.
  bool is_here() const { return size_ == 1 || origin_.is_here(); }
  /// @throws Error (usage) where it is not, which names the process and the rank that are
  void expect_here() const {
    if (is_here()) return;
    throw origin_.misuse(
        "the communicator",
        "communicate in the parent, or connect() anew in the child with a rendezvous of its own",
        {rank_, {}, 0}, text(", rank ", rank_, " of ", size_));
  }
  Error in_context(const Error& error, std::string_view operation, std::uint64_t number) const;
  const std::shared_ptr<FlightRecorder>& recorder() const { return identity_.recorder; }
  OperationLog& log() { return *log_; }
  const std::shared_ptr<Counters>& counters() const { return identity_.counters; }
  /// A rank that makes others wait longer is logged.
  std::chrono::nanoseconds slow_after() const { return std::chrono::nanoseconds(slow_after_.load()); }
  void slow_after(std::chrono::nanoseconds duration) { slow_after_ = duration.count(); }
  /// None without a trace, and for operations on a device.
  std::optional<SpanBegin> begin_span(const Issued& issued) const;
  /// Ends the operation's span, if one has begun.
  void record_span(const Issued& issued) const;
  /// In context; after a deadline with the ranks that have not said that they wait, too.
  Error explained(const Error& error, const Issued& issued, std::chrono::steady_clock::time_point since);
  /// Says who makes `issued` wait since then, if that can be told yet.
  bool tell_late(const Issued& issued, std::chrono::steady_clock::time_point since);
  /// That a late rank has come: what began to wait before is not told of.
  void came_after_all(const Issued& issued);
  /// For whom the operation at this place of the log waits, where that can be seen. @param group of it, if it is one
  std::string late(std::uint64_t place, const GroupProgress* group);
  OperationsUnderWay& under_way() { return *identity_.under_way; }
  /// Null where ranks see each other without one.
  Watchdog* watchdog() { return watchdog_ ? &*watchdog_ : nullptr; }

 private:
  /// Carries out at once what can be; null when that is all.
  std::unique_ptr<Task> begin(const Operation& operation, const Stream& stream);
  /// Adds to the bytes that were sent. @returns what this operation adds, in whole bytes
  std::uint64_t sends(Payload payload);
  Event submit(std::unique_ptr<Task> task, const Issued& issued, Stream stream);
  Event submit_to_device(std::unique_ptr<Task> task, const Issued& issued, Stream stream);
  Event in_turn(std::unique_ptr<Task> task, const Issued& issued, const Stream& stream);
  Event behind_messages(const MessageChains::Channels& channels, std::unique_ptr<Task> task,
                        const Issued& issued, const Stream& stream);
  Work work(Event event, const Issued& issued, std::shared_ptr<GroupProgress> group = nullptr);

  const Origin origin_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Rendezvous> rendezvous_;
  int rank_;
  int size_;
  Topology topology_;
  std::chrono::nanoseconds timeout_;
  std::shared_ptr<Trace> trace_;
  Identity identity_;
  int splits_ = 0;
  std::shared_ptr<OperationLog> log_;
  std::optional<Watchdog> watchdog_;
  std::optional<StreamTrace> device_trace_;  // of operations on the device's streams; made with the first
  void check_stream(std::string_view operation, Device memory, const Stream& stream) const;

  // Operations on host memory and on the device's are numbered apart: one backend for each.
  std::uint64_t collectives_ = 0;
  std::uint64_t device_collectives_ = 0;
  std::uint64_t groups_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t sent_rest_ = 0;  // of a byte, in parts of which size() are a whole one
  // What the next operation waits for, unless it may overlap. An event and not a stream: pending work holds
  // this state, and the two would keep each other alive.
  Event last_;
  MessageChains messages_;  // where groups may overlap
  std::mutex late_mutex_;
  std::optional<std::uint64_t> told_of_{};           // the collective that waits for a rank, which was told
  std::chrono::steady_clock::time_point came_at_{};  // when the last one that was told of was over
  std::atomic<std::int64_t> slow_after_ = std::chrono::nanoseconds(std::chrono::seconds(1)).count();
  mutable std::mutex broken_mutex_;
  std::optional<Error> broken_;
  std::atomic<bool> is_broken_ = false;
};

/// From now on peers hear when this process ends by exit() and has not left (process_exit.cpp).
void tell_of_exit(const std::shared_ptr<CommunicatorState>& state);

Communicator make_communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Rendezvous> rendezvous,
                               Topology topology, std::chrono::nanoseconds timeout,
                               std::shared_ptr<Trace> trace, Identity identity = {});

}  // namespace weft::detail
