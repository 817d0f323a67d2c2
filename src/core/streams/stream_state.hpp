#pragma once
// The state that handles of Stream share, and the outcome of each task, which handles of Event share.
//
// A stream is a queue of entries: a task and its Completion. One thread at a time advances the front entry;
// an entry that finishes sets its completion and leaves the queue. Kinds of streams differ in which thread
// that is (host_stream.hpp, cuda/stream.hpp). The first exception of a task is kept: later entries fail with
// it and do not run.

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>

#include "core/memory/per_process.hpp"
#include "core/streams/due_calls.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

/// A point in the work of a device, which runs on without the host.
class DevicePoint {
 public:
  virtual ~DevicePoint() = default;
  /// Whether the device is past it; any thread may ask. @throws the error of the work before it
  virtual bool passed() = 0;
};

/// The outcome of one task. The thread that ran the task writes it. Where the task only handed work to a
/// device, the first thread that finds the device done writes it. Any thread reads it.
class Completion {
 public:
  explicit Completion(std::weak_ptr<StreamState> driver) : driver_(std::move(driver)) {}
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  void succeed() { finish(succeeded); }
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    finish(failed);
  }
  /// The device has the work; it is complete when the device has passed `point`.
  void hand_over(std::shared_ptr<DevicePoint> point) {
    point_ = std::move(point);
    status_.store(handed_over, std::memory_order_release);
  }
  bool pending();
  /// The point that the device passes when the work is done; null before the work is handed over, and for
  /// host work.
  std::shared_ptr<DevicePoint> point() const {
    return status_.load(std::memory_order_acquire) == waiting ? nullptr : point_;
  }
  std::exception_ptr error() const {
    return status_.load(std::memory_order_acquire) == failed ? error_ : nullptr;
  }
  /// Keeps `function` until this is done. False, and nothing done, when it is.
  bool keep(std::function<void()>& function);
  /// Progresses the stream of this task in the calling thread, if streams of its kind work in such threads.
  void drive() const;
  /// @throws Error (usage) in a child that was forked since, which cannot complete it
  void expect_own_process() const;
  /// The stream of this task; null when it is gone.
  std::shared_ptr<StreamState> driver() const { return driver_.lock(); }
  /// The same of work that was handed to a device; null for work of the host.
  std::shared_ptr<StreamState> device_stream() const { return point() ? driver() : nullptr; }
  /// Sleeps until that stream may make progress, for `at_most` at the longest.
  void rest(std::chrono::microseconds at_most) const;
  /// Whether the caller runs inside the stream that has to complete this, so that waiting would deadlock.
  bool awaited_by_its_own_stream() const;

 private:
  enum Status { waiting, handed_over, succeeded, failed };

  // One exchange where a store would do without functions: a few nanoseconds of a task that passed through a queue.
  void finish(Status how) {
    status_.store(how, std::memory_order_release);
    if (DueCall* const newest = calls_.exchange(closed(), std::memory_order_acq_rel)) release(newest);
  }
  static void release(DueCall* newest) noexcept;
  /// Where the list of functions is over: no address of one.
  DueCall* closed() { return reinterpret_cast<DueCall*>(this); }  // NOLINT: is only compared

  std::atomic<Status> status_{waiting};
  std::exception_ptr error_;
  std::shared_ptr<DevicePoint> point_;
  std::mutex query_mutex_;                // one thread at a time asks the device
  std::atomic<DueCall*> calls_{nullptr};  // the newest first
  std::weak_ptr<StreamState> driver_;
};

/// Handles own it through handle(), so that the last handle finishes the work even while a thread that
/// progresses an event still holds the state itself.
class StreamState : public std::enable_shared_from_this<StreamState> {
 public:
  virtual ~StreamState() = default;

  /// A pointer for handles to share: the last one to go calls close() in its own thread.
  static std::shared_ptr<StreamState> handle(std::shared_ptr<StreamState> state);
  /// Runs the work that is left; while an exception is unwinding, drops it. Nothing is submitted any more.
  /// When the last handle goes inside a task of this stream, close() returns at once and the queue finishes
  /// afterwards.
  virtual void close() noexcept = 0;

  /// Throws what forbids to give work to this stream now.
  virtual void admit() {}
  std::shared_ptr<Completion> submit(std::unique_ptr<Task> task);
  /// The completion of everything submitted so far; null when nothing was submitted.
  virtual std::shared_ptr<Completion> record();
  /// A task that makes this stream wait for `event`.
  virtual std::unique_ptr<Task> wait_for(Event event);
  virtual Device device() const { return {}; }
  /// Advances the queue in the caller's thread, if streams of this kind work in such threads. Never blocks.
  virtual void progress() = 0;
  /// A function waits for this completion, which a device may finish long after the host. A stream that has to ask keeps it.
  virtual void watch(std::shared_ptr<Completion> /*completion*/) {}
  /// Asks the device for those.
  virtual void settle() {}
  /// Sleeps, in a thread that waits for this stream and has seen no progress for a while.
  virtual void rest(std::chrono::microseconds at_most) { Backoff::sleep(at_most); }
  virtual bool is_inline() const = 0;
  virtual bool runs_in_this_thread() = 0;
  bool idle();
  /// In a child that was forked since: whether it has left the stream's work, or its thread, to its parent. An inline stream that was idle then
  /// is the child's.
  bool is_left_behind() const {
    return generation_.load(std::memory_order_relaxed) != process_generation() &&
           (!is_inline() || waiting_.load(std::memory_order_acquire) != 0);
  }
  /// Whether a task may run inside submit(): the stream is inline, its queue is empty, and it has no error.
  bool takes_work_at_once() const {
    return waiting_.load(std::memory_order_acquire) == 0 && is_inline() &&
           !failed_.load(std::memory_order_acquire);
  }

 protected:
  struct Entry {
    std::unique_ptr<Task> task;
    std::shared_ptr<Completion> completion;
  };

  /// Called after an entry was appended, without mutex_.
  virtual void appended() = 0;
  /// Runs one attempt of the entry. True when it has finished or failed.
  bool advance(Entry& entry);
  /// Called before each attempt of a task.
  virtual void begin() {}
  /// Called when a task has finished on the host.
  virtual void conclude(Completion& completion) { completion.succeed(); }
  /// Empties the queue and returns its entries. The caller holds mutex_.
  RecycledDeque<Entry> take_all();
  /// Fails the entries without running them. The caller does not hold mutex_.
  static void drop(RecycledDeque<Entry> entries) noexcept;
  /// The caller holds mutex_.
  void pop_front() {
    queue_.pop_front();
    waiting_.fetch_sub(1, std::memory_order_release);
  }

  std::mutex mutex_;
  RecycledDeque<Entry> queue_;
  std::shared_ptr<Completion> last_;

 private:
  std::atomic<std::uint64_t> generation_{process_generation()};
  std::atomic<std::size_t> waiting_{0};  // queue_.size(), readable without the lock
  std::atomic<bool> failed_{false};
  std::exception_ptr sticky_;
  std::mutex sticky_mutex_;
};

/// The state of a stream or an event, for other parts of weft.
struct StreamAccess {
  static const std::shared_ptr<StreamState>& state(const Stream& stream) { return stream.state_; }
  static const std::shared_ptr<Completion>& completion(const Event& event) { return event.completion_; }
  static Stream stream(std::shared_ptr<StreamState> state) { return Stream(std::move(state)); }
};

}  // namespace weft::detail
