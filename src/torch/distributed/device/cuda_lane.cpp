// Lanes over torch's CUDA.
//
// The stream is one of torch's pool: torch knows it, so that its operations run there, and it lives as long as the process. Joins
// are events of torch's.

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

#include "torch/distributed/device/lane.hpp"
#include "weft/core/error.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::distributed {
namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).unwrap();
}

class CudaMark final : public Lane::Mark {
 public:
  explicit CudaMark(const c10::Stream& stream) : device_(stream.device()), event_(c10::DeviceType::CUDA) {
    event_.record(stream);
  }
  void block_current() const override { event_.block(current_stream(device_)); }

 private:
  c10::Device device_;
  c10::Event event_;
};

class CudaLane final : public Lane {
 public:
  CudaLane(const c10::cuda::CUDAStream& stream, Device device)
      : Lane(adopt_stream(stream.stream(), device), stream.device()), own_(stream.unwrap()) {}

  // A stream that waits for one that is captured would be captured, too.
  void after_current() override {
    const c10::DeviceGuard guard(device());
    if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None)
      throw Error(
          ErrorKind::usage,
          text("a call of weft on ", device().str(), ", whose current stream is captured into a CUDA graph"),
          "weft numbers, compares and watches its operations on the host, which a replayed graph does not "
          "pass: call it outside of the capture");
    joint_.record(current_stream(device()));
    joint_.block(own_);
  }

  void run(std::function<void()> operations) override {
    Stream(stream()).run([own = own_, operations = std::move(operations)] {
      const c10::StreamGuard guard(own);
      operations();
    });
  }

  std::shared_ptr<const Mark> mark() override { return std::make_shared<CudaMark>(own_); }

  c10::intrusive_ptr<c10::ivalue::Future> make_future(c10::TypePtr type) const override {
    return c10::make_intrusive<c10::ivalue::Future>(std::move(type), std::vector<c10::Device>{device()});
  }

  // The future records its event on the current stream.
  void complete(c10::ivalue::Future& future, c10::IValue value) override {
    const c10::StreamGuard guard(own_);
    future.markCompleted(std::move(value));
  }

 private:
  c10::Stream own_;
  c10::Event joint_{c10::DeviceType::CUDA};  // recorded anew at each call
};

}  // namespace

std::unique_ptr<Lane> make_lane(Device device) {
  constexpr bool high_priority = true;  // kernels that others wait for begin before those that wait for room
  const auto index = static_cast<c10::DeviceIndex>(device.index());
  return std::make_unique<CudaLane>(c10::cuda::getStreamFromPool(high_priority, index), device);
}

std::optional<Device> device_of(c10::Device device) {
  if (device.is_cpu()) return Device::host();
  if (device.is_cuda()) return Device::cuda(device.index());
  return std::nullopt;
}

const char* lanes_of_this_build() {
  return "over NCCL";
}

}  // namespace weft::distributed
