#pragma once
// One rank's NCCL communicator: made, called, watched and ended without ever blocking for longer than a
// deadline.
//
// NCCL's communicators here are non-blocking: after every call NCCL is asked whether it is still in progress, and polled until it
// reports success, before anything else is asked of it. The answer of the call does not tell: CommSplit, CommShrink and
// CommWindowRegister return success while a thread of NCCL's is at work, and store their result when it is done (2.28.9:
// init.cc:1612 and 2665, group.cc:706, dev_runtime.cc:890). One thread at a time uses a communicator; a rank
// that has several on one device issues them in the same order as every other rank. Views handed to calls
// stay alive until the stream has passed them.
//
// The first error breaks the communicator, for NCCL keeps it, an invalid argument too, and fails every later call with it
// (init.cc:373): whatever is called later fails with the same error. What
// broke is revoked (NCCL 2.28.7) or aborted, which also ends its kernels that wait for a rank that will not
// come.
//
//   nccl::Communicator comm(nccl::Api::load(), id, rank, size, {}, Deadline::in(2min));
//   comm.call("all_reduce", [&](const Api& api, Comm* raw) { return api.AllReduce(..., raw, stream); });
//   if (auto error = comm.trouble()) comm.give_up(*error);   // now and then: has another rank failed?
//
// WRONG: comm.call() from two threads; NCCL would see two orders on two ranks and hang.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "collectives/nccl/api.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"

namespace weft::detail::nccl {

struct Options {
  /// How long a call may stay in progress, and how long the end may take.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  /// Thread blocks that its kernels may take from computation beside them; NCCL chooses where they are not
  /// given.
  std::optional<int> min_ctas{};
  std::optional<int> max_ctas{};
  /// Sub-groups share buffers and proxies with this one: less memory, but one that fails takes all along.
  bool share_resources = false;
};

class Communicator {
 public:
  /// For rank 0, which hands it to the others. @throws Error (system)
  static UniqueId make_id(const Api& api);

  /// Collective. @throws Error: (timeout) when not all ranks came by the deadline, (usage) when NCCL refuses
  /// the set-up, such as two ranks on one device, (peer_lost), (system)
  Communicator(std::shared_ptr<const Api> api, const UniqueId& id, int rank, int size, Options options,
               Deadline deadline);
  /// Ends it together with the other ranks, within the timeout; aborts a broken one. Never throws.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::shared_ptr<const Api>& api() const { return api_; }
  Comm* raw() const { return comm_; }

  /// Issues one NCCL call and polls it out of progress. @param operation for messages
  /// @param meanwhile is called while NCCL is in progress; what it throws breaks the communicator
  /// @throws Error, which breaks the communicator
  template <class Call>
  void call(const char* operation, Call call, const std::function<void()>& meanwhile = {}) {
    expect_intact();
    settle(call(*api_, comm_), operation, Deadline::in(options_.timeout), meanwhile);
  }

  /// An error that NCCL met since, if there is one. The caller that hears of it gives up.
  std::optional<Error> trouble() const;

  /// The ranks that name the same color, by key; null for the color `no_color`. Collective over all ranks.
  std::unique_ptr<Communicator> split(int color, int key, int new_rank, int new_size);

  /// The ranks that are not `lost`. Collective over the survivors. @throws Error (usage) before NCCL 2.27,
  /// and for a broken communicator before 2.28.7
  std::unique_ptr<Communicator> shrink(std::span<const int> lost);

  /// Ends what is under way, here and (by its effect) on the ranks that wait for this one. Never throws.
  void give_up(const Error& reason) noexcept;
  bool broken() const { return broken_.has_value(); }
  /// Called once with the error that breaks it, before NCCL ends what is under way. Must not throw.
  void on_break(std::function<void(const Error&)> tell) { tell_ = std::move(tell); }

 private:
  Communicator(std::shared_ptr<const Api> api, Comm* comm, int rank, int size, Options options);

  void expect_intact() const;
  void settle(Result result, const char* operation, Deadline deadline,
              const std::function<void()>& meanwhile = {});
  Result state() const;
  Result poll(Result result, const char* operation, Deadline deadline,
              const std::function<void()>& meanwhile = {});
  std::unique_ptr<Communicator> child(Result result, Comm*& part, int rank, int size, const char* operation);
  Error error_of(Result result, const char* operation) const;
  [[noreturn]] void fail(Result result, const char* operation);
  Config config() const;
  void abort() noexcept;

  std::shared_ptr<const Api> api_;
  Comm* comm_ = nullptr;
  int rank_;
  int size_;
  Options options_;
  std::optional<Error> broken_;
  std::function<void(const Error&)> tell_;
};

}  // namespace weft::detail::nccl
