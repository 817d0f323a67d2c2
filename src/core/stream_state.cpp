#include "core/stream_state.hpp"

#include <condition_variable>
#include <utility>

#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

void Completion::drive() const {
  if (auto stream = driver_.lock()) stream->progress();
}

void Completion::rest(std::chrono::microseconds at_most) const {
  if (auto stream = driver_.lock()) {
    stream->rest(at_most);
  } else {
    Backoff::sleep(at_most);
  }
}

bool Completion::awaited_by_its_own_stream() const {
  const auto stream = driver_.lock();
  return stream && stream->runs_in_this_thread();
}

bool Completion::pending() {
  const Status status = status_.load(std::memory_order_acquire);
  if (status != handed_over) return status == waiting;
  const std::lock_guard lock(asking_);
  if (status_.load(std::memory_order_acquire) != handed_over) return false;
  try {
    if (!point_->passed()) return true;
    succeed();
  } catch (...) {
    fail(std::current_exception());
  }
  return false;
}

std::shared_ptr<StreamState> StreamState::handle(std::shared_ptr<StreamState> state) {
  StreamState* shared = state.get();
  return {shared, [state = std::move(state)](StreamState*) { state->close(); },
          RecycledAllocator<StreamState>()};
}

std::shared_ptr<Completion> StreamState::submit(std::unique_ptr<Task> task) {
  auto completion = make_recycled<Completion>(weak_from_this());
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(task), completion});
    waiting_.fetch_add(1, std::memory_order_relaxed);
    last_ = completion;
  }
  appended();
  return completion;
}

std::shared_ptr<Completion> StreamState::record() {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::unique_ptr<Task> StreamState::wait_for(Event event) {
  class Wait final : public Task {
   public:
    explicit Wait(Event event) : event_(std::move(event)) {}
    bool advance() override {
      if (!event_.done()) return false;
      if (auto error = event_.error()) std::rethrow_exception(error);
      return true;
    }
    void rest(std::chrono::microseconds at_most) override { event_.rest(at_most); }

   private:
    Event event_;
  };
  return std::make_unique<Wait>(std::move(event));
}

bool StreamState::idle() {
  const std::lock_guard lock(mutex_);
  return queue_.empty();
}

bool StreamState::advance(Entry& entry) {
  {
    const std::lock_guard lock(sticky_mutex_);
    if (sticky_) {
      entry.task.reset();
      entry.completion->fail(sticky_);
      return true;
    }
  }
  try {
    begin();
    if (!entry.task->advance()) return false;
    entry.task.reset();  // what it holds is free before anybody hears that it is done
    conclude(*entry.completion);
  } catch (...) {
    {
      const std::lock_guard lock(sticky_mutex_);
      sticky_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
    entry.task.reset();
    entry.completion->fail(std::current_exception());
  }
  return true;
}

RecycledDeque<StreamState::Entry> StreamState::take_all() {
  waiting_.store(0, std::memory_order_release);
  return std::exchange(queue_, {});
}

void StreamState::drop(RecycledDeque<Entry> entries) noexcept {
  const auto dropped = std::make_exception_ptr(Error(
      ErrorKind::usage, "the stream was destroyed, while an exception was unwinding, before this work ran"));
  for (Entry& entry : entries) {
    entry.task.reset();
    entry.completion->fail(dropped);
  }
}

bool InlineStream::finish() noexcept {
  if (runs_in_this_thread()) return false;
  const bool unwinding = std::uncaught_exceptions() > 0;
  const auto rest = [this](std::chrono::microseconds at_most) { this->rest(at_most); };
  for (Backoff backoff; !idle(); backoff.pause(rest)) {
    if (unwinding) {
      drop_unless_carried();
    } else {
      progress();
    }
  }
  return true;
}

void InlineStream::drop_unless_carried() noexcept {
  std::unique_lock lock(mutex_);
  if (carrier_ != std::thread::id{}) return;
  RecycledDeque<Entry> dropped = take_all();
  lock.unlock();
  drop(std::move(dropped));
}

// One thread at a time carries the queue; the others, and work that submits more to its own stream, leave
// it to that one. The lock is not held while work runs.
void InlineStream::progress() {
  std::unique_lock lock(mutex_);
  if (carrier_ != std::thread::id{}) return;
  carrier_ = std::this_thread::get_id();
  while (!queue_.empty()) {
    Entry& front = queue_.front();  // stays valid: others only append
    lock.unlock();
    const bool finished = advance(front);
    lock.lock();
    if (!finished) break;
    pop_front();
  }
  carrier_ = {};
}

// The front is rested on by who could carry it on; for the others that one's work is enough to wait for.
void InlineStream::rest(std::chrono::microseconds at_most) {
  std::unique_lock lock(mutex_);
  if (queue_.empty() || carrier_ != std::thread::id{}) {
    lock.unlock();
    return Backoff::sleep(at_most);
  }
  carrier_ = std::this_thread::get_id();
  Task& front = *queue_.front().task;
  lock.unlock();
  front.rest(at_most);
  lock.lock();
  carrier_ = {};
}

bool InlineStream::runs_in_this_thread() {
  const std::lock_guard lock(mutex_);
  return carrier_ == std::this_thread::get_id();
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
