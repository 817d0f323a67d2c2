#include "collectives/nccl/separate_call.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>

namespace weft::detail::nccl {

struct SeparateCall::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  Result result = success;
  std::exception_ptr error;
};

SeparateCall::SeparateCall(const std::function<void()>& enter, std::function<Result()> call)
    : state_(std::make_shared<State>()) {
  thread_ = std::thread([state = state_, enter, call = std::move(call)] {
    Result result = internal_error;
    std::exception_ptr error;
    try {
      if (enter) enter();
      result = call();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(state->mutex);
    state->result = result;
    state->error = error;
    state->over = true;
    state->changed.notify_all();
  });
}

SeparateCall::~SeparateCall() {
  if (wait_for(std::chrono::nanoseconds(0))) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool SeparateCall::wait_for(std::chrono::nanoseconds at_most) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, at_most, [this] { return state_->over; });
}

Result SeparateCall::result() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->error) std::rethrow_exception(state_->error);
  return state_->result;
}

}  // namespace weft::detail::nccl
