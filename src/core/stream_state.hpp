#pragma once
// What stands behind Stream and Event: a queue, and the outcome of each entry.

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "weft/core/backoff.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

/// A place in the work of a device, which goes on without the host.
class DevicePoint {
 public:
  virtual ~DevicePoint() = default;
  /// Any thread may ask. @throws what the work before it failed with
  virtual bool passed() = 0;
};

/// Outcome of one task. Written by the thread that carried the task out, and where that only handed work to a
/// device, by the first that finds the device done; read by any.
class Completion {
 public:
  explicit Completion(std::weak_ptr<StreamState> driver) : driver_(std::move(driver)) {}

  void succeed() { status_.store(succeeded, std::memory_order_release); }
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    status_.store(failed, std::memory_order_release);
  }
  /// The device has the work; it is complete when the device has passed `point`.
  void hand_over(std::shared_ptr<DevicePoint> point) {
    point_ = std::move(point);
    status_.store(handed_over, std::memory_order_release);
  }
  bool pending();
  /// Where the device gets it done; null before it was handed over, and for work of the host.
  std::shared_ptr<DevicePoint> point() const {
    return status_.load(std::memory_order_acquire) == waiting ? nullptr : point_;
  }
  std::exception_ptr error() const {
    return status_.load(std::memory_order_acquire) == failed ? error_ : nullptr;
  }
  /// Lets the stream this belongs to make progress, if it needs somebody's thread for that.
  void drive() const;
  /// Until that stream may go on, or so long.
  void rest(std::chrono::microseconds at_most) const;
  /// Whether the caller is work of the very stream that would have to complete this.
  bool awaited_by_its_own_stream() const;

 private:
  enum Status { waiting, handed_over, succeeded, failed };

  std::atomic<Status> status_{waiting};
  std::exception_ptr error_;
  std::shared_ptr<DevicePoint> point_;
  std::mutex asking_;  // of the device
  std::weak_ptr<StreamState> driver_;
};

// Handles and events own it apart: whoever drives an event holds the state for a moment, and the last handle
// finishes the work even then.
class StreamState : public std::enable_shared_from_this<StreamState> {
 public:
  virtual ~StreamState() = default;

  /// What handles share: the last one closes the state, in its own thread.
  static std::shared_ptr<StreamState> handle(std::shared_ptr<StreamState> state);
  /// Carries out what is left, drops it while an exception is unwinding; nothing is submitted any more. Work
  /// of this very stream that lets go of its last handle is not waited for.
  virtual void close() noexcept = 0;

  std::shared_ptr<Completion> submit(std::unique_ptr<Task> task);
  /// Of everything submitted so far; null where that is nothing.
  virtual std::shared_ptr<Completion> record();
  /// The task that makes this stream wait.
  virtual std::unique_ptr<Task> wait_for(Event event);
  virtual Device device() const { return {}; }
  /// Advances the queue in the caller's thread where the kind works that way. Never blocks.
  virtual void progress() = 0;
  /// For a thread that waits for it and has seen no progress for a while.
  virtual void rest(std::chrono::microseconds at_most) { Backoff::sleep(at_most); }
  virtual bool is_inline() const = 0;
  virtual bool runs_in_this_thread() = 0;
  bool idle();
  /// Whether new work may be carried out by its caller, at the call: nothing is before it, and no error.
  bool takes_work_at_once() const {
    return waiting_.load(std::memory_order_acquire) == 0 && is_inline() &&
           !failed_.load(std::memory_order_acquire);
  }

 protected:
  struct Entry {
    std::unique_ptr<Task> task;
    std::shared_ptr<Completion> completion;
  };

  /// Called without the lock, after an entry was appended.
  virtual void appended() = 0;
  /// True when the entry is finished, one way or the other.
  bool advance(Entry& entry);
  /// An entry's task is about to be asked.
  virtual void begin() {}
  /// The entry's task is complete, for the host.
  virtual void conclude(Completion& completion) { completion.succeed(); }
  /// What waits, taken out of the queue; under the lock.
  RecycledDeque<Entry> take_all();
  /// Fails without having run; without the lock.
  static void drop(RecycledDeque<Entry> entries) noexcept;
  /// Under the lock.
  void pop_front() {
    queue_.pop_front();
    waiting_.fetch_sub(1, std::memory_order_release);
  }

  std::mutex mutex_;
  RecycledDeque<Entry> queue_;
  std::shared_ptr<Completion> last_;

 private:
  std::atomic<std::size_t> waiting_{0};  // queue_.size(), for those who do not want the lock
  std::atomic<bool> failed_{false};
  std::exception_ptr sticky_;
  std::mutex sticky_mutex_;
};

/// Works in whatever thread asks it to.
class InlineStream : public StreamState {
 public:
  ~InlineStream() override { finish(); }

  void close() noexcept override { finish(); }
  void progress() override;
  void rest(std::chrono::microseconds at_most) override;
  bool is_inline() const override { return true; }
  bool runs_in_this_thread() override;

 protected:
  /// False when the caller is work of this very stream, which is left to whoever carries it.
  bool finish() noexcept;

 private:
  void appended() override { progress(); }
  void drop_unless_carried() noexcept;

  std::thread::id carrier_{};
};

/// Handles of new streams.
std::shared_ptr<StreamState> make_inline_stream();
std::shared_ptr<StreamState> make_queued_stream();

/// What stands behind a stream or an event, for other parts of weft.
struct Behind {
  static const std::shared_ptr<StreamState>& of(const Stream& stream) { return stream.state_; }
  static const std::shared_ptr<Completion>& of(const Event& event) { return event.completion_; }
  static Stream stream(std::shared_ptr<StreamState> state) { return Stream(std::move(state)); }
};

}  // namespace weft::detail
