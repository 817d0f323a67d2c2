#pragma once
// What torch gets for a call on tensors of a CUDA device.
//
// It is handed over at the call, in one step. wait() and synchronize() make the caller's current stream wait; the host waits where a
// timeout is given, in barrier(), and everywhere with TORCH_NCCL_BLOCKING_WAIT=1, as with torch's own backend for NCCL. The future has its
// value at once, and who takes it waits on the device. The tensors are kept until the device is done with them, which Progress finds
// out; so memory needs no record_stream(). What weft finds wrong later (a lost peer, a deadline) is thrown by the next call of the group,
// and by wait() where it is known by then.

#include "torch/distributed/device/lane.hpp"
#include "torch/distributed/work.hpp"

namespace weft::distributed {

class DeviceWork final : public TorchWork {
 public:
  using TorchWork::TorchWork;

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void blockCurrentStream() { synchronize(); }  // torch's own from some version on
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  bool poll() override;

  // For Group, in this order, under its lock.
  void issue(Communicator& comm, Lane& lane, Messages& messages);
  /// What torch has to do after it, such as to copy results to where they belong.
  void run_end(Lane& lane);
  /// @param messages that went together, where there are any @param last done when the device has passed all
  void handed_over(const weft::Work* messages, const weft::Work& last,
                   std::shared_ptr<const Lane::Mark> mark);

 private:
  void expect_issued() const;
  void throw_error();

  std::shared_ptr<const Lane::Mark> mark_;
  c10::intrusive_ptr<c10::ivalue::Future> value_;  // with the mutex of the base
};

}  // namespace weft::distributed
