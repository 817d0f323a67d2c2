#include "core/streams/host_stream.hpp"

#include <condition_variable>
#include <utility>

#include "weft/core/backoff.hpp"

namespace weft::detail {

bool InlineStream::finish() noexcept {
  if (is_left_behind()) return true;
  if (runs_in_this_thread()) return false;
  const bool unwinding = std::uncaught_exceptions() > 0;
  const auto rest = [this](std::chrono::microseconds at_most) { this->rest(at_most); };
  for (Backoff backoff; !idle(); backoff.pause(rest)) {
    if (unwinding) {
      drop_unless_running();
    } else {
      progress();
    }
  }
  return true;
}

void InlineStream::drop_unless_running() noexcept {
  std::unique_lock lock(mutex_);
  if (runner_ != std::thread::id{}) return;
  RecycledDeque<Entry> dropped = take_all();
  lock.unlock();
  drop(std::move(dropped));
}

// One thread at a time runs the queue, without holding the lock while a task runs. Other threads return, as
// does a task that submits to its own stream: the running thread finds what they appended.
void InlineStream::progress() {
  if (is_left_behind()) return;
  while (run_until_calls_are_due()) {
  }
}

// They run at the end of it, when other threads may run the queue.
bool InlineStream::run_until_calls_are_due() {
  const DueCalls due;
  const std::lock_guard lock(mutex_);
  if (runner_ != std::thread::id{}) return false;
  runner_ = std::this_thread::get_id();
  bool are_due = false;
  while (!queue_.empty() && !are_due) {
    Entry& front = queue_.front();  // stays valid: others only append
    mutex_.unlock();
    const bool finished = advance(front);
    mutex_.lock();
    if (!finished) break;
    pop_front();
    are_due = DueCalls::any();
  }
  runner_ = {};
  return are_due;
}

// The thread that could run the queue rests as the front task does, which may be woken by a peer. Other
// threads sleep for a fixed time, since they can only wait for the running thread.
void InlineStream::rest(std::chrono::microseconds at_most) {
  const DueCalls due;
  std::unique_lock lock(mutex_);
  if (queue_.empty() || runner_ != std::thread::id{}) {
    lock.unlock();
    return Backoff::sleep(at_most);
  }
  runner_ = std::this_thread::get_id();
  Task& front = *queue_.front().task;
  lock.unlock();
  front.rest(at_most);
  lock.lock();
  runner_ = {};
}

bool InlineStream::runs_in_this_thread() {
  const std::lock_guard lock(mutex_);
  return runner_ == std::this_thread::get_id();
}

namespace {

class QueuedStream final : public StreamState {
 public:
  static std::shared_ptr<StreamState> make() {
    auto stream = std::make_shared<QueuedStream>();
    stream->worker_ = std::thread([stream] { stream->work(); });
    stream->worker_id_ = stream->worker_.get_id();
    return handle(std::move(stream));
  }

  void close() noexcept override {
    if (is_left_behind()) return keep_for_ever(std::move(worker_));  // the thread is not there
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      drop_ = std::uncaught_exceptions() > 0;
    }
    wake_.notify_one();
    if (runs_in_this_thread()) {
      worker_.detach();
    } else {
      worker_.join();
    }
  }

  void progress() override {}
  bool is_inline() const override { return false; }
  bool runs_in_this_thread() override { return worker_id_ == std::this_thread::get_id(); }

 private:
  void appended() override { wake_.notify_one(); }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Entry& front = queue_.front();  // stays valid: others only append
      lock.unlock();
      const auto rest = [&front](std::chrono::microseconds at_most) { front.task->rest(at_most); };
      for (Backoff backoff; !drop_.load() && !advance(front);) backoff.pause(rest);
      lock.lock();
      if (drop_.load()) {
        RecycledDeque<Entry> dropped = take_all();
        lock.unlock();
        return drop(std::move(dropped));
      }
      pop_front();
    }
  }

  std::condition_variable wake_;
  bool stopping_ = false;
  std::atomic<bool> drop_{false};
  std::thread worker_;  // keeps this alive until it ends
  std::thread::id worker_id_;
};

}  // namespace

std::shared_ptr<StreamState> make_inline_stream() {
  return StreamState::handle(make_recycled<InlineStream>());
}

std::shared_ptr<StreamState> make_queued_stream() {
  return QueuedStream::make();
}

}  // namespace weft::detail
