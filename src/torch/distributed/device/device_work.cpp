#include "torch/distributed/device/device_work.hpp"

#include <c10/core/DeviceGuard.h>

#include <cstdlib>

#include "torch/distributed/errors.hpp"
#include "torch/distributed/group.hpp"

namespace weft::distributed {
namespace {

/// As torch's own backend for NCCL reads it.
bool host_waits_always() {
  static const bool waits = [] {
    const char* text = std::getenv("TORCH_NCCL_BLOCKING_WAIT");  // NOLINT(concurrency-mt-unsafe): once
    return text != nullptr && std::string(text) == "1";
  }();
  return waits;
}

}  // namespace

void DeviceWork::issue(Communicator& comm, Lane& lane, Messages& messages) {
  issue_next(comm, lane.stream(), &messages);
}

// The functions own the tensors that they use: they are kept until the end.
void DeviceWork::run_end(Lane& lane) {
  if (const auto end = keep_end()) lane.run(end);
}

void DeviceWork::handed_over(const weft::Work* messages, const weft::Work& last,
                             std::shared_ptr<const Lane::Mark> mark) {
  mark_ = std::move(mark);
  if (messages != nullptr) add(*messages);
  add(last);
  issued();
}

// An event is asked with its device as the current one: CUDA would make a context on device 0 for a thread that has none.
bool DeviceWork::poll() {
  const c10::DeviceGuard guard(group().lane()->device());
  return TorchWork::poll();
}

void DeviceWork::expect_issued() const {
  if (is_issued()) return;
  std::rethrow_exception(backend_error(text("weft: ", call().title, " of rank ", rank(),
                                            " has not been started: it is in a group of coalesced calls; "
                                            "wait for what the end of that group returns")));
}

void DeviceWork::throw_error() {
  if (!poll()) return;
  if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
}

void DeviceWork::synchronize() {
  expect_issued();
  if (mark_) mark_->block_current();
  throw_error();
}

// After a barrier the host goes on: who calls one means the host, too.
bool DeviceWork::wait(std::chrono::milliseconds timeout) {
  expect_issued();
  const bool on_host = timeout != kNoTimeout || call().type == c10d::OpType::BARRIER || host_waits_always();
  if (on_host) TorchWork::wait(timeout);
  synchronize();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> DeviceWork::getFuture() {
  expect_issued();
  const std::exception_ptr error = poll() ? exception() : nullptr;
  const std::lock_guard lock(mutex_);
  if (value_) return value_;
  Lane& lane = *group().lane();
  value_ = lane.make_future(future_type());
  if (error) {
    value_->setError(error);
  } else {
    lane.complete(*value_, future_value());
  }
  return value_;
}

}  // namespace weft::distributed
