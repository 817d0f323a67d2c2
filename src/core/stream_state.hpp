#pragma once
// What stands behind Stream and Event: a queue, and the outcome of each entry.

#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>

#include "weft/core/stream.hpp"

namespace weft::detail {

/// Outcome of one task. Written once, by the thread that carried the task out; read by any.
class Completion {
 public:
  explicit Completion(std::weak_ptr<StreamState> driver) : driver_(std::move(driver)) {}

  void succeed() { status_.store(succeeded, std::memory_order_release); }
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    status_.store(failed, std::memory_order_release);
  }
  bool pending() const { return status_.load(std::memory_order_acquire) == waiting; }
  std::exception_ptr error() const {
    return status_.load(std::memory_order_acquire) == failed ? error_ : nullptr;
  }
  /// Lets the stream this belongs to make progress, if it needs somebody's thread for that.
  void drive() const;
  /// Whether the caller is work of the very stream that would have to complete this.
  bool awaited_by_its_own_stream() const;

 private:
  enum Status { waiting, succeeded, failed };

  std::atomic<Status> status_{waiting};
  std::exception_ptr error_;
  std::weak_ptr<StreamState> driver_;
};

class StreamState : public std::enable_shared_from_this<StreamState> {
 public:
  virtual ~StreamState() = default;

  std::shared_ptr<Completion> submit(std::unique_ptr<Task> task);
  std::shared_ptr<Completion> last();
  /// Advances the queue in the caller's thread where the kind works that way. Never blocks.
  virtual void progress() = 0;
  virtual bool is_inline() const = 0;
  virtual bool runs_in_this_thread() = 0;
  bool idle();

 protected:
  struct Entry {
    std::unique_ptr<Task> task;
    std::shared_ptr<Completion> completion;
  };

  /// Called without the lock, after an entry was appended.
  virtual void appended() = 0;
  /// True when the entry is finished, one way or the other.
  bool advance(Entry& entry);
  void drop_all() noexcept;

  std::mutex mutex_;
  std::deque<Entry> queue_;
  std::shared_ptr<Completion> last_;

 private:
  std::exception_ptr sticky_;
  std::mutex sticky_mutex_;
};

std::shared_ptr<StreamState> make_inline_stream();
std::shared_ptr<StreamState> make_queued_stream();

}  // namespace weft::detail
