#include "torch/distributed/work.hpp"

#include <ATen/core/ivalue.h>

#include "torch/distributed/errors.hpp"
#include "torch/distributed/group.hpp"
#include "torch/distributed/progress.hpp"
#include "torch/distributed/signals.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/log.hpp"

namespace weft::distributed {
namespace {

bool is_message(c10d::OpType type) {
  return type == c10d::OpType::SEND || type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE;
}

std::optional<std::vector<at::Tensor>> shapes(const std::vector<at::Tensor>& inputs) {
  if (inputs.empty()) return std::nullopt;
  return inputs;
}

}  // namespace

void Messages::send(ConstView data, int peer) {
  group_.send(data, to(peer));
  has_some_ = true;
}

void Messages::receive(View data, int peer) {
  group_.receive(data, to(peer));
  has_some_ = true;
}

std::optional<Work> Messages::start(const Stream& stream) {
  if (!has_some_) return std::nullopt;
  return group_.start(stream);
}

void Issue::send(ConstView data, int peer, std::uint32_t tag) const {
  if (messages != nullptr) return messages->send(data, peer);
  add(weft::Group(comm).send(data, peer, tag).start(own_stream()));
}

void Issue::receive(View data, int peer, std::uint32_t tag) const {
  if (messages != nullptr) return messages->receive(data, peer);
  add(weft::Group(comm).receive(data, peer, tag).start(own_stream()));
}

void Issue::receive_any(View data, std::uint32_t tag) const {
  add(weft::Group(comm).receive_any(data, tag).start(own_stream()));
}

TorchWork::TorchWork(std::shared_ptr<Group> group, Call call)
    : c10d::Work(group->rank(), call.type, call.title, shapes(call.inputs)),
      group_(std::move(group)),
      call_(std::move(call)),
      is_ordered_(!is_message(call_.type)),
      level_(callback_level()) {
  if (call_.timeout.count() < 0) call_.timeout = group_->timeout();
}

TorchWork::TorchWork(GoesOn, TorchWork& dropped)
    : c10d::Work(dropped.rank_, dropped.call_.type),
      group_(dropped.group_),
      call_(std::move(dropped.call_)),
      is_ordered_(dropped.is_ordered_),
      level_(dropped.level_),
      sequence_(dropped.sequence_),
      source_(dropped.source_),
      steps_(std::move(dropped.steps_)),
      next_(dropped.next_),
      works_(std::move(dropped.works_)),
      streams_(std::move(dropped.streams_)),
      refused_(std::move(dropped.refused_)),
      end_(std::move(dropped.end_)),
      kept_(std::move(dropped.kept_)),
      is_issued_(true) {}

// What stands in the queue, is watched or has a future is held by another, so all that is under way here was issued in full.
TorchWork::~TorchWork() {
  if (!is_issued() || is_over()) return;
  try {
    group_->progress().watch(c10::make_intrusive<TorchWork>(GoesOn{}, *this));
  } catch (const std::exception& error) {
    log::warn(
        text("rank ", group_->rank(), ": no thread goes on with what was dropped: ", message_of(error)));
  }
}

void TorchWork::issue_next(Communicator& comm, const Stream& stream, Messages* messages) {
  works_.clear();
  comm.timeout(call_.timeout);
  steps_[next_++]({comm, stream, works_, streams_, messages});
  if (messages == nullptr) issued();
}

std::function<void()> TorchWork::keep_end() {
  kept_ = std::exchange(end_, nullptr);
  return kept_;
}

void TorchWork::refuse_next(std::exception_ptr why) {
  next_ = steps_.size();
  refused_ = std::move(why);
  is_issued_.store(true, std::memory_order_release);
}

bool TorchWork::poll() {
  if (is_over()) return true;
  if (!is_issued_.load(std::memory_order_acquire)) {
    group_->drive_first(*this);
    return is_over();
  }
  std::unique_lock lock(polling_, std::try_to_lock);
  if (!lock) return is_over();
  if (is_over() || !is_issued_.load(std::memory_order_acquire)) return is_over();
  for (const weft::Work& work : works_) {
    if (!work.done()) return false;
  }
  std::exception_ptr error = refused_;
  for (const weft::Work& work : works_) {
    if (!error) error = work.error();
  }
  if (!error && has_further_steps()) {
    is_issued_.store(false, std::memory_order_release);
    if (!group_->go_on(*this)) issued();
    return false;
  }
  if (error && has_further_steps()) {
    if (!group_->leave_queue(*this)) return false;
    next_ = steps_.size();
  }
  if (!error && call_.type == c10d::OpType::RECVANYSOURCE) source_ = works_.front().source();
  end(error ? group_->as_torch_error(error) : nullptr);
  return true;
}

void TorchWork::end(std::exception_ptr error) {
  if (!error && end_) {
    try {
      end_();
    } catch (...) {
      error = std::current_exception();
    }
  }
  end_ = nullptr;
  kept_ = nullptr;
  steps_.clear();
  next_ = 0;
  works_.clear();
  streams_.clear();
  call_.inputs
      .clear();  // a tensor that goes may wait for Python's lock: not under one that a thread with that waits for, as in getFuture()
  {
    const std::lock_guard lock(mutex_);
    if (!is_watched_) is_announced_ = true;
  }
  finish(error);
  over_.store(true, std::memory_order_release);
  group_->one_is_over();
}

bool TorchWork::wait(std::chrono::milliseconds timeout) {
  if (!is_over()) group_->expect_here();
  if (!poll()) drive(timeout == kNoTimeout ? Deadline::never() : Deadline::in(timeout));
  wait_for_callbacks();
  if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
  return true;
}

void TorchWork::drive(const Deadline& deadline) {
  waiters_.fetch_add(1);
  const auto rest = [this](std::chrono::microseconds at_most) {
    this->rest(at_most);
    run_signal_handlers();
  };
  try {
    for (Backoff backoff; !poll(); backoff.pause(rest)) {
      if (!deadline.passed()) continue;
      std::rethrow_exception(backend_error(text(
          "weft: Timed out waiting: rank ", group_->rank(), " waited ", deadline.waited_seconds(), " s for ",
          call_.title, ", which goes on; wait longer, or find the rank that has not called it")));
    }
  } catch (const c10::Error&) {
    leave_to_progress();
    throw;
  } catch (...) {
    group_->was_interrupted();
    leave_to_progress();
    throw;
  }
  waiters_.fetch_sub(1);
}

// The caller need not wait again, and what holds the work may live on, as a traceback does.
void TorchWork::leave_to_progress() {
  waiters_.fetch_sub(1);
  bool is_watched = false;
  {
    const std::lock_guard lock(mutex_);
    is_watched = is_watched_;
  }
  if (!is_watched) return group_->progress().watch(TorchWorkPtr::reclaim_copy(this));
  group_->progress().look_again();
}

// A caller that has asked for the future may look at it after wait(). In a callback, a future whose result that very
// thread hands out is not waited for.
void TorchWork::wait_for_callbacks() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  bool forget = false;
  {
    const std::lock_guard lock(mutex_);
    future = future_;
    forget = !future && is_watched_ && !is_announced_;
    if (forget) is_announced_ = true;
  }
  if (forget) group_->progress().forget(*this);
  if (!future) return;
  group_->progress().look_again();
  if (callback_level() > level_) return;
  const auto rest = [](std::chrono::microseconds at_most) {
    Backoff::sleep(at_most);
    run_signal_handlers();
  };
  for (Backoff backoff; !future->completed(); backoff.pause(rest)) {
  }
}

void TorchWork::rest(std::chrono::microseconds at_most) {
  Event event;
  {
    std::unique_lock lock(polling_, std::try_to_lock);
    if (lock && is_issued_.load(std::memory_order_acquire)) {
      for (const weft::Work& work : works_) {
        if (!work.done()) event = work.event();
      }
    }
  }
  event.rest(at_most);
}

void TorchWork::watched() {
  const std::lock_guard lock(mutex_);
  is_watched_ = true;
}

bool TorchWork::is_handed_out() {
  const std::lock_guard lock(mutex_);
  return is_announced_ && is_over();
}

std::vector<at::Tensor> TorchWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& tensors : call_.outputs) all.insert(all.end(), tensors.begin(), tensors.end());
  return all;
}

void TorchWork::abort() {
  group_->abort();
}

c10::TypePtr TorchWork::future_type() const {
  auto type = c10::ListType::create(c10::TensorType::get());
  return call_.outputs.size() > 1 ? c10::ListType::create(type) : type;
}

c10::IValue TorchWork::future_value() {
  if (call_.outputs.size() > 1) return call_.outputs;
  return result();
}

c10::intrusive_ptr<c10::ivalue::Future> TorchWork::getFuture() {
  bool resolve_now = false;
  bool watch = false;
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(future_type());
    resolve_now = is_announced_;
    watch = !is_announced_ && !is_watched_;
  }
  if (resolve_now) resolve();
  if (watch) group_->progress().watch(TorchWorkPtr::reclaim_copy(this));
  return future_;
}

void TorchWork::announce() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_announced_, true) || !future_) return;
  }
  group_->progress().call_back(TorchWorkPtr::reclaim_copy(this));
}

void TorchWork::resolve() {
  if (const std::exception_ptr error = exception()) {
    future_->setError(error);
  } else {
    future_->markCompleted(future_value());
  }
}

}  // namespace weft::distributed
