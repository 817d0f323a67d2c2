#pragma once
// What torch gets for a call: a c10d::Work that issues its operations of weft in steps.
//
// Most calls are one step. A further step is issued when the operations of the one before it are done, by
// the thread that finds that out; until its last step is issued, a work holds up what was called after it in
// its group (group.hpp), so that all ranks issue in one order. The operations are driven by the thread that
// waits for the work, or by Progress where none does. The work keeps its tensors alive until it is over.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "weft/collectives/communicator.hpp"

namespace weft::distributed {

class Group;

/// What a call is to torch.
struct Call {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;       ///< the profiler's name of it
  std::vector<at::Tensor> inputs{};  ///< whose shapes the profiler shows
  std::vector<std::vector<at::Tensor>> outputs{};
  std::chrono::milliseconds timeout{-1};  ///< < 0: the group's
  bool is_async = true;                   ///< false: the caller waits at once
};

/// Where a step issues its operations.
struct Issue {
  Communicator& comm;
  const Stream& stream;  ///< of the group's collectives
  std::vector<Work>& works;
  std::vector<Stream>& streams;

  void add(Work work) const { works.push_back(std::move(work)); }
  /// A stream of its own, for messages, which overtake each other. A stream that ends waits for its work: it is kept.
  const Stream& own_stream() const { return streams.emplace_back(); }
};

class TorchWork final : public c10d::Work {
 public:
  using Step = std::function<void(const Issue&)>;

  TorchWork(std::shared_ptr<Group> group, Call call);
  TorchWork(const TorchWork&) = delete;
  TorchWork& operator=(const TorchWork&) = delete;

  // Before it is started.
  void step(Step step) { steps_.push_back(std::move(step)); }
  /// Runs when the last step is done, in the thread that finds that out, and before any waiter goes on.
  void at_end(std::function<void()> end) { end_ = std::move(end); }

  // What torch asks.
  bool isCompleted() override { return poll(); }
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }
  std::chrono::milliseconds getTimeout() const override { return call_.timeout; }
  int sourceRank() const override { return source_; }
  void abort() override;

  // For Group, which calls them one at a time.
  void issue_next(Communicator& comm, const Stream& stream);
  void refuse_next(std::exception_ptr why);  ///< in place of issue_next(), or where that threw
  bool has_issued() const { return !works_.empty(); }
  bool has_further_steps() const { return next_ < steps_.size(); }
  void number(std::uint64_t sequence) { sequence_ = sequence; }
  void came_from(int rank) { source_ = rank; }
  const Call& call() const { return call_; }

  // For Progress.
  /// Whether it is over; makes it progress without blocking.
  bool poll();
  bool is_over() const { return over_.load(std::memory_order_acquire); }
  bool is_driven() const { return waiters_.load(std::memory_order_relaxed) > 0; }
  /// Results are handed out in the order of calls; messages have none.
  bool is_ordered() const { return is_ordered_; }
  void rest(std::chrono::microseconds at_most);
  Group& group() { return *group_; }
  void watched();
  /// Over, and its result handed out.
  bool is_handed_out();
  /// The future may have its result now, which is handed over by a thread of callbacks.
  void announce();
  /// Gives the future its result.
  void resolve();
  int level() const { return level_; }

 private:
  void end(std::exception_ptr error);
  void wait_for_callbacks();

  const std::shared_ptr<Group> group_;
  Call call_;
  const bool is_ordered_;
  const int level_;  ///< of the callbacks that it was called from, 0: none
  std::uint64_t sequence_ = 0;
  int source_ = -1;

  std::mutex polling_;
  std::vector<Step> steps_;
  std::size_t next_ = 0;
  std::vector<weft::Work> works_;  ///< of the step that was issued last
  std::vector<Stream> streams_;
  std::exception_ptr refused_;
  std::function<void()> end_;
  std::atomic<bool> is_issued_{false};
  std::atomic<bool> over_{false};
  std::atomic<int> waiters_{0};

  // With the mutex of the base.
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool is_watched_ = false;
  bool is_announced_ = false;
};

using TorchWorkPtr = c10::intrusive_ptr<TorchWork>;

}  // namespace weft::distributed
