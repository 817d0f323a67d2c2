#pragma once
// What torch gets for a call: a c10d::Work that issues its operations of weft in steps.
//
// Most calls are one step. A further step is issued when the operations of the one before it are done, by
// the thread that finds that out; until its last step is issued, a work holds up what was called after it in
// its group (group.hpp), so that all ranks issue in one order. The operations are driven by the thread that
// waits for the work, or by Progress where none does. The work keeps its tensors alive until it is over. A caller
// may drop it before: then Progress gets another that goes on with all it has, so that the transfer ends in memory
// that lives, and results reach the tensors that the caller still has. That costs a call that is waited for nothing.

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
  int peer = -1;                          ///< of a message
};

/// Messages of a device, which NCCL carries out together. It has no tags.
class Messages {
 public:
  /// @param is_pair the communicator is of two ranks of the group, and peers are of the group
  Messages(const Communicator& comm, bool is_pair) : group_(comm), rank_(comm.rank()), is_pair_(is_pair) {}
  void send(ConstView data, int peer);
  void receive(View data, int peer);
  /// None where there are no messages.
  std::optional<Work> start(const Stream& stream);

 private:
  int to(int peer) const { return is_pair_ ? 1 - rank_ : peer; }

  weft::Group group_;
  int rank_;
  bool is_pair_;
  bool has_some_ = false;
};

/// Where a step issues its operations.
struct Issue {
  Communicator& comm;
  const Stream& stream;  ///< of the group's collectives
  std::vector<Work>& works;
  std::vector<Stream>& streams;
  Messages* messages;  ///< of a device, which are started later; null on the host

  void add(Work work) const { works.push_back(std::move(work)); }
  /// NCCL has no tags.
  std::uint32_t tag(std::uint32_t of_host) const { return messages == nullptr ? of_host : 0; }
  // Single messages.
  void send(ConstView data, int peer, std::uint32_t tag) const;
  void receive(View data, int peer, std::uint32_t tag) const;
  void receive_any(View data, std::uint32_t tag) const;

 private:
  /// For messages of the host, which overtake each other. A stream that ends waits for its work: it is kept.
  const Stream& own_stream() const { return streams.emplace_back(); }
};

class TorchWork : public c10d::Work {
  struct GoesOn {};

 public:
  using Step = std::function<void(const Issue&)>;

  TorchWork(std::shared_ptr<Group> group, Call call);
  /// Has the operations of `dropped` that are under way, and all that they use.
  TorchWork(GoesOn, TorchWork& dropped);
  ~TorchWork() override;
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
  // Torch's own from some version on; 2.11 has it not.
  virtual std::chrono::milliseconds getTimeout() const { return call_.timeout; }
  int sourceRank() const override { return source_; }
  void abort() override;

  // For Group, which calls them one at a time.
  /// @param messages of a device; null on the host
  void issue_next(Communicator& comm, const Stream& stream, Messages* messages = nullptr);
  void refuse_next(std::exception_ptr why);  ///< in place of issue_next(), or where that threw
  bool has_issued() const { return !works_.empty(); }
  bool has_further_steps() const { return next_ < steps_.size(); }
  void number(std::uint64_t sequence) { sequence_ = sequence; }
  void came_from(int rank) { source_ = rank; }
  const Call& call() const { return call_; }

  // For Progress.
  /// Whether it is over; makes it progress without blocking.
  virtual bool poll();
  bool is_over() const { return over_.load(std::memory_order_acquire); }
  bool is_driven() const { return waiters_.load(std::memory_order_relaxed) > 0; }
  /// Results are handed out in the order of calls; messages have none.
  bool is_ordered() const { return is_ordered_; }
  void rest(std::chrono::microseconds at_most);
  Group& group() const { return *group_; }
  void watched();
  /// Over, and its result handed out.
  bool is_handed_out();
  /// The future may have its result now, which is handed over by a thread of callbacks.
  void announce();
  /// Gives the future its result.
  void resolve();
  int level() const { return level_; }

 protected:
  // For DeviceWork.
  int rank() const { return rank_; }
  bool is_issued() const { return is_issued_.load(std::memory_order_acquire); }
  void issued() { is_issued_.store(true, std::memory_order_release); }
  void add(weft::Work work) { works_.push_back(std::move(work)); }
  /// What runs at the end, to be run by the caller. It is kept until then, with what it owns.
  std::function<void()> keep_end();
  c10::TypePtr future_type() const;
  c10::IValue future_value();

 private:
  void end(std::exception_ptr error);
  /// Until it is over. @throws at the deadline, and what a signal handler of Python raises
  void drive(const Deadline& deadline);
  void leave_to_progress();
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
  std::function<void()> kept_;
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
