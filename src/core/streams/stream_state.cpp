#include "core/streams/stream_state.hpp"

#include <utility>

#include "core/streams/cuda_stream.hpp"
#include "core/streams/host_stream.hpp"
#include "core/streams/interruption.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

Error left_behind(const char* what) {
  return {ErrorKind::usage, text(what, " the process that forked this one"),
          "make a new stream in the child, and wait for the parent's work in the parent"};
}

}  // namespace

void Completion::drive() const {
  if (auto stream = driver_.lock()) stream->progress();
}

void Completion::expect_own_process() const {
  const auto stream = driver_.lock();
  if (stream && stream->is_left_behind()) throw left_behind("a child waits for work on a stream of");
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

Completion::~Completion() {
  DueCall* const left = calls_.load(std::memory_order_acquire);
  if (left != nullptr && left != closed()) release(left);  // of a device that can be asked no more
}

bool Completion::keep(std::function<void()>& function) {
  auto call = std::make_unique<DueCall>(std::move(function));
  call->next = calls_.load(std::memory_order_acquire);
  do {
    if (call->next == closed()) {
      function = std::move(call->function);
      return false;
    }
  } while (!calls_.compare_exchange_weak(call->next, call.get(), std::memory_order_acq_rel));
  call.release();  // NOLINT(bugprone-unused-return-value): the list has it
  return true;
}

void Completion::release(DueCall* newest) noexcept {
  DueCall* first = nullptr;
  while (newest != nullptr) {
    DueCall* const next = std::exchange(newest->next, first);
    first = std::exchange(newest, next);
  }
  DueCalls::add(first);
}

bool Completion::pending() {
  const Status status = status_.load(std::memory_order_acquire);
  if (status != handed_over) return status == waiting;
  const DueCalls due;
  const std::lock_guard lock(query_mutex_);
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
  if (is_left_behind())
    throw left_behind("a child gives work to a stream with a thread, or with work under way, of");
  generation_.store(process_generation(), std::memory_order_relaxed);
  admit();
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
  const DueCalls due;
  std::exception_ptr failed;
  {
    const std::lock_guard lock(sticky_mutex_);
    failed = sticky_;
  }
  if (failed) {
    entry.task->dropped(failed);
    entry.task.reset();
    entry.completion->fail(failed);
    return true;
  }
  try {
    begin();
    if (!entry.task->advance()) return false;
    entry.task.reset();  // frees what the task holds before a waiter sees that it is done
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

}  // namespace weft::detail

namespace weft {

void Task::rest(std::chrono::microseconds at_most) {
  Backoff::sleep(at_most);
}

bool Event::done() const {
  if (!completion_ || !completion_->pending()) return true;
  const auto completion = completion_;  // a function of then() may end this event
  completion->drive();
  return !completion->pending();
}

void Event::then(std::function<void()> function) const {
  if (!function) throw Error(ErrorKind::usage, "an event was given no function to call");
  const auto completion = completion_;
  if (!completion || !completion->pending() || !completion->keep(function))
    return detail::DueCalls::run(function);
  if (const auto stream = completion->driver()) stream->watch(completion);
}

void Event::rest(std::chrono::microseconds at_most) const {
  if (completion_) completion_->rest(at_most);
}

std::exception_ptr Event::error() const {
  return completion_ ? completion_->error() : nullptr;
}

void Event::wait(Deadline deadline) const {
  const Event self(*this);  // a function of then() may end this event
  if (completion_ && completion_->pending()) completion_->expect_own_process();
  if (!self.done() && self.completion_->awaited_by_its_own_stream()) {
    throw Error(ErrorKind::usage, "work on a stream waits for that very stream",
                "wait in the thread that submits the work, or use another stream");
  }
  const auto rest = [&self](std::chrono::microseconds at_most) {
    self.rest(at_most);
    detail::Interruption::look();
  };
  for (Backoff backoff; !self.done(); backoff.pause(rest)) {
    if (deadline.passed()) {
      throw Error(ErrorKind::timeout,
                  text("an event had not happened after ", deadline.waited_seconds(), " s"));
    }
  }
  if (const auto stream = self.completion_ ? self.completion_->device_stream() : nullptr) stream->settle();
  if (auto failure = self.error()) std::rethrow_exception(failure);
}

Stream::Stream() : Stream(detail::make_inline_stream()) {}
Stream::Stream(Device device, StreamPriority priority)
    : Stream(device.is_host() ? detail::make_inline_stream()
                              : detail::cuda::make_stream(device.index(), priority)) {}
Stream::Stream(std::shared_ptr<detail::StreamState> state) : state_(std::move(state)) {}
Stream Stream::queued() {
  return Stream(detail::make_queued_stream());
}

Device Stream::device() const {
  return state_->device();
}

bool Stream::is_inline() const {
  return state_->is_inline();
}

Event Stream::submit(std::unique_ptr<Task> task) {
  return Event(state_->submit(std::move(task)));
}

void Stream::wait(Event event) {
  if (event.done() && !event.error()) return;
  state_->submit(state_->wait_for(std::move(event)));
}

Event Stream::record() const {
  return Event(state_->record());
}

bool Stream::poll() {
  if (state_->idle() || state_->runs_in_this_thread()) {
    state_->settle();
    return true;
  }
  state_->progress();
  return state_->idle();
}

void Stream::synchronize(Deadline deadline) {
  record().wait(deadline);
}

}  // namespace weft
