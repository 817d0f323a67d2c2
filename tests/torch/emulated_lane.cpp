// The lane of tests without a GPU: CUDA is emulated (tests/emulation), and torch's host tensors are taken as those of its device 0.
//
// All that the backend does for a device then runs: communicators, NCCL's calls on a fake, streams, events, deadlines. What torch
// has of CUDA is not there: what it computes is over when it is called, so a current stream that waits is the host that waits.

#include <cuda_runtime_api.h>

#include "torch/distributed/device/lane.hpp"
#include "weft/core/error.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::distributed {
namespace {

class EmulatedMark final : public Lane::Mark {
 public:
  explicit EmulatedMark(Event event) : event_(std::move(event)) {}
  void block_current() const override {
    try {
      event_.wait();
    } catch (
        const std::exception&) {  // NOLINT(bugprone-empty-catch): on a device no wait throws; the work tells
    }
  }

 private:
  Event event_;
};

class EmulatedLane final : public Lane {
 public:
  explicit EmulatedLane(Device device) : Lane(Stream(device), c10::Device(at::kCPU)) {}
  void after_current() override {}
  void run(std::function<void()> operations) override {
    Stream(stream()).run([native = native_handle(stream()), operations = std::move(operations)] {
      const auto call = [](void* data) {
        const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(data));
        (*owned)();
      };
      cudaLaunchHostFunc(native, call, new std::function<void()>(operations));
    });
  }
  std::shared_ptr<const Mark> mark() override { return std::make_shared<EmulatedMark>(stream().record()); }
  c10::intrusive_ptr<c10::ivalue::Future> make_future(c10::TypePtr type) const override {
    return c10::make_intrusive<c10::ivalue::Future>(std::move(type));
  }
  void complete(c10::ivalue::Future& future, c10::IValue value) override {
    mark()->block_current();
    future.markCompleted(std::move(value));
  }
};

}  // namespace

std::unique_ptr<Lane> make_lane(Device device) {
  return std::make_unique<EmulatedLane>(device);
}

std::optional<Device> device_of(c10::Device device) {
  if (device.is_cpu()) return Device::cuda(0);
  return std::nullopt;
}

const char* lanes_of_this_build() {
  return "EMULATED: host tensors stand for them, in tests alone";
}

}  // namespace weft::distributed
