#pragma once
// One rank's NCCL communicator: made, called, watched and ended without ever waiting for longer than a deadline.
//
// It is blocking, as PyTorch's are. Why: from NCCL 2.23 on each group of a non-blocking communicator costs a new thread
// (2.28.9: group.cc:706), more than the operation costs the host. The price is that a call may wait inside NCCL for ranks that
// do not come, so
// - what waits for others by its nature (connecting, split, shrink, registration, the end) runs on a thread of its own, which is
//   given up on at the deadline (SeparateCall);
// - an operation waits in its caller's thread, at its first use of a connection (transport.cc:179) or where queues are full. Another thread
//   calls give_up(), which raises NCCL's abort flag: the call then returns with an error. ncclCommRevoke (2.28.7) does so and frees
//   nothing. Before that there is only ncclCommAbort, which also frees the communicator in the call's hands: it is what PyTorch does, and
//   no worse than a hang.
// Where NCCL_COMM_BLOCKING=0 makes it non-blocking all the same, results are polled for: a child may come late (init.cc:1612).
//
// One thread at a time calls; any thread may give up or look for trouble. A rank that has several on one device issues in the
// same order as every other rank. Views handed to calls stay alive until the stream has passed them.
//
// The first error breaks the communicator, an invalid argument too, for a group that failed half-way has no defined state: whatever is
// called later fails with the same error.
//
//   nccl::Communicator comm(nccl::Api::load(), id, rank, size, {}, Deadline::in(2min));
//   comm.call("all_reduce", [&](const Api& api, Comm* raw) { return api.AllReduce(..., raw, stream); });
//   if (auto error = comm.trouble()) comm.give_up(*error);   // now and then: has another rank failed?
//
// WRONG: comm.call() from two threads; NCCL would see two orders on two ranks and hang.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "collectives/nccl/api.hpp"
#include "weft/collectives/nccl_options.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"

namespace weft::detail::nccl {

struct Options {
  /// How long a call that waits for others may take, and how long the end may take.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  NcclOptions nccl{};
  /// Sub-groups share buffers and proxies with this one: less memory, but one that fails takes all along.
  bool share_resources = false;
  /// Called first on each thread that is made for a call: makes its device the current one.
  std::function<void()> enter{};
};

/// Called now and then by a caller that waits; what it throws breaks the communicator.
using Meanwhile = std::function<void()>;

class Communicator {
 public:
  /// For rank 0, which hands it to the others. @throws Error (system)
  static UniqueId make_id(const Api& api);

  /// Collective. @throws Error: (timeout) when not all ranks came by the deadline, which leaves a thread behind that waits in NCCL;
  /// (usage) when NCCL refuses the set-up, such as two ranks on one device, (peer_lost), (system)
  Communicator(std::shared_ptr<const Api> api, const UniqueId& id, int rank, int size, Options options,
               Deadline deadline, const Meanwhile& meanwhile = {});
  /// Ends it together with the other ranks, within the timeout; aborts a broken one. Never throws.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::shared_ptr<const Api>& api() const { return api_; }
  Comm* raw() const { return comm_; }

  /// Hands one operation over to NCCL, in this thread. @param operation for messages @param timeout of a call that NCCL goes on with
  /// after its return; 0: the communicator's
  /// @throws Error, which breaks the communicator
  template <class Call>
  void call(const char* operation, Call call, std::chrono::nanoseconds timeout = {}) {
    const Calling calling(*this);
    conclude(call(*api_, calling.comm()), operation, timeout);
  }
  /// A call that waits for other ranks, until the timeout. @param call owns what it reads and writes
  using OwningCall = std::function<Result(const Api& api, Comm* comm)>;
  void call_apart(const char* operation, OwningCall call, const Meanwhile& meanwhile = {});

  /// An error that NCCL met since, if there is one; while another thread calls NCCL, which hears of errors itself, it is not asked.
  /// The caller that hears of it gives up. Any thread.
  std::optional<Error> trouble() const;

  /// The ranks that name the same color, by key; null for the color `no_color`. Collective over all ranks.
  std::unique_ptr<Communicator> split(int color, int key, int new_rank, int new_size,
                                      const Meanwhile& meanwhile = {});

  /// The ranks that are not `lost`. Collective over the survivors. @throws Error (usage) before NCCL 2.27,
  /// and for a broken communicator before 2.28.7
  std::unique_ptr<Communicator> shrink(std::span<const int> lost);

  /// Ends what is under way, here and (by its effect) on the ranks that wait for this one. Any thread, also while
  /// another calls. Never throws.
  void give_up(const Error& reason) noexcept;
  bool broken() const;
  /// Called once with the error that breaks it, before NCCL ends what is under way. Must not throw. Before the first call.
  void on_break(std::function<void(const Error&)> tell) { tell_ = std::move(tell); }
  /// Called with what NCCL answers a call that failed; knows better who is gone. Before the first call.
  void on_failure(std::function<Error(const Error&)> explain) { explain_ = std::move(explain); }

 private:
  Communicator(std::shared_ptr<const Api> api, Comm* comm, int rank, int size, Options options);

  /// A call of NCCL's that is under way. @throws Error where the communicator is broken, unless it may be
  class Calling {
   public:
    explicit Calling(const Communicator& comm, bool may_be_broken = false);
    ~Calling() { --communicator_.calls_; }
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;
    Comm* comm() const { return comm_; }

   private:
    const Communicator& communicator_;
    Comm* comm_;
  };
  std::optional<Error> reason() const;
  Result state() const;
  Result state_of(Comm* comm) const;
  Comm* current() const;
  /// The call on a thread of its own. @throws Error (timeout), and what look_up() throws, which breaks the communicator
  Result wait_apart(const char* operation, std::function<Result()> call, Deadline deadline,
                    const Meanwhile& meanwhile);
  /// What comes of a result that is still in progress.
  Result poll(Result result, const char* operation, Deadline deadline, const Meanwhile& meanwhile = {});
  /// @throws what ends a wait: another thread gave up, `meanwhile` throws, the deadline has passed
  void look_up(const char* operation, bool was_broken, Deadline deadline, const Meanwhile& meanwhile) const;
  void conclude(Result result, const char* operation, std::chrono::nanoseconds timeout = {});
  using MakePart = std::function<Result(Comm* of, Comm** part, Config* config)>;
  std::unique_ptr<Communicator> child(const char* operation, MakePart make, int rank, int size,
                                      const Meanwhile& meanwhile = {});
  Error late(const char* operation, Deadline deadline) const;
  Error error_of(Result result, const char* operation) const;
  Config config() const;
  using End = Result (*)(const Api&, Comm*);
  static Result aborting(const Api& api, Comm* comm) { return api.CommAbort(comm); }
  bool end_now(End end, Comm* comm) const noexcept;
  void end_what_is_under_way() noexcept;
  void abort() noexcept;

  std::shared_ptr<const Api> api_;
  int rank_;
  int size_;
  Options options_;
  std::function<void(const Error&)> tell_;
  std::function<Error(const Error&)> explain_;
  mutable std::mutex mutex_;  // of what follows
  Comm* comm_ = nullptr;
  std::optional<Error> broken_;
  mutable std::atomic<int> calls_ = 0;  // under way; they begin under the lock
};

}  // namespace weft::detail::nccl
