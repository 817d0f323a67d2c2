#include <cuda_runtime_api.h>

#include <cstring>
#include <optional>

#include "core/base/strings.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/launched.hpp"
#include "core/cuda/runtime.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail::cuda {
namespace {

const char* advice_for(cudaError_t code) {
  switch (code) {
    case cudaErrorInsufficientDriver:
      return "update the NVIDIA driver, or build weft with an older toolkit";
    case cudaErrorNoDevice:
      return "nvidia-smi must list a GPU; CUDA_VISIBLE_DEVICES may hide it";
    case cudaErrorMemoryAllocation:
      return "free memory of the device, or use smaller buffers; nvidia-smi shows who else holds some";
    case cudaErrorInvalidDevice:
      return "devices are numbered from 0, after CUDA_VISIBLE_DEVICES";
    default:
      return "the driver's log (dmesg, Xid) may say more";
  }
}

[[noreturn]] void refuse(cudaError_t code, const std::string& what) {
  throw Error(code == cudaErrorInvalidDevice ? ErrorKind::usage : ErrorKind::system,
              text(what, ": CUDA: ", cudaGetErrorString(code)), advice_for(code));
}

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears it: it is reported here, once
  reported = code;
  refuse(code, what);
}

/// For destructors, which must not throw. Work that failed was reported by the waits for it.
void check_quietly(cudaError_t code, const char* what) noexcept {
  if (code == cudaSuccess || code == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  if (code == reported) return;
  try {
    log::warn(text(what, ": CUDA: ", cudaGetErrorString(code)));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory even for the message
  }
}

/// For destructors: calls with `device` as the current one.
template <class Call>
void quietly(int device, const char* what, Call call) noexcept {
  int before = device;
  cudaError_t code = cudaGetDevice(&before);
  if (code == cudaSuccess && before != device) code = cudaSetDevice(device);
  if (code == cudaSuccess) code = call();
  if (before != device) cudaSetDevice(before);
  check_quietly(code, what);
}

/// While a thread captures a graph, CUDA forbids all threads to ask events or to free memory, and ends the capture where one does
/// (cudaStreamCaptureModeGlobal, the default). What weft does there has no part in the graph, and says so with this.
class Uncaptured {
 public:
  Uncaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Uncaptured() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Uncaptured(const Uncaptured&) = delete;
  Uncaptured& operator=(const Uncaptured&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class Driver final : public Runtime {
 public:
  int devices() override {
    int count = 0;
    check(cudaGetDeviceCount(&count), "no CUDA device can be used");
    return count;
  }
  std::string identity(int device) override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cannot ask the device who it is");
    const auto& bytes = properties.uuid.bytes;
    return hex_digits({reinterpret_cast<const unsigned char*>(bytes), sizeof(bytes)});
  }
  int current() override {
    int device = 0;
    check(cudaGetDevice(&device), "cannot use CUDA");
    return device;
  }
  void make_current(int device) override { check(cudaSetDevice(device), "cannot use the device"); }

  NativeStream make_stream(int device, bool first) override {
    const Current current(*this, device);
    cudaStream_t stream = nullptr;
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cannot make a stream");
    // Non-blocking: it does not synchronize with the legacy default stream, which other code may use.
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, first ? greatest : 0),
          "cannot make a stream");
    return stream;
  }
  void destroy(NativeStream stream) noexcept override {
    check_quietly(cudaStreamDestroy(stream), "destroying a stream");
  }
  // An event is recorded in streams of its own device alone; cudaStreamGetDevice() came with CUDA 12.8.
  bool is_on(NativeStream stream, int device) override {
    const NativeEvent event = make_event(device, false);
    const cudaError_t code = cudaEventRecord(event, stream);
    if (code != cudaSuccess) cudaGetLastError();
    destroy(event);
    if (code != cudaErrorInvalidResourceHandle) check(code, "cannot use the stream");
    return code == cudaSuccess;
  }
  bool capturing(NativeStream stream, int device) override {
    std::optional<Current> current;
    if (stream == nullptr) current.emplace(*this, device);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t code = cudaStreamIsCapturing(stream, &status);
    // The default stream, while one that waits for it is captured.
    if (code == cudaErrorStreamCaptureImplicit) {
      cudaGetLastError();
      return true;
    }
    check(code, "cannot use a stream");
    return status != cudaStreamCaptureStatusNone;
  }

  NativeEvent make_event(int device, bool timed) override {
    const Current current(*this, device);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
          "cannot make an event");
    return event;
  }
  void destroy(NativeEvent event) noexcept override {
    check_quietly(cudaEventDestroy(event), "destroying an event");
  }
  void record(NativeEvent event, NativeStream stream) override {
    check(cudaEventRecord(event, stream), "cannot record an event");
  }
  bool passed(NativeEvent event) override {
    const Uncaptured uncaptured;
    const cudaError_t code = cudaEventQuery(event);
    if (code == cudaErrorNotReady) return false;
    check(code, "work on a stream failed");
    return true;
  }
  double seconds_between(NativeEvent begin, NativeEvent end) override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cannot take the time between events");
    return static_cast<double>(milliseconds) * 1e-3;
  }
  void wait(NativeStream stream, NativeEvent event) override {
    check(cudaStreamWaitEvent(stream, event, 0), "a stream cannot wait");
  }

  void* allocate(int device, std::size_t bytes) override {
    const Current current(*this, device);
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, bytes);
    if (code != cudaSuccess) {
      cudaGetLastError();
      refuse(code, text("cannot allocate ", bytes, " bytes on ", Device::cuda(device)));
    }
    check(cudaMemset(memory, 0, bytes), "cannot clear memory");
    check(cudaStreamSynchronize(nullptr), "cannot clear memory");
    return memory;
  }
  void release(int device, void* memory) noexcept override {
    const Uncaptured uncaptured;
    quietly(device, "giving back device memory", [=] { return cudaFree(memory); });
  }

  void* allocate_on_host(int device, std::size_t bytes) override {
    const Current current(*this, device);
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
          "cannot allocate host memory that kernels reach");
    std::memset(memory, 0, bytes);
    return memory;
  }
  void release_on_host(int device, void* memory) noexcept override {
    const Uncaptured uncaptured;
    quietly(device, "giving back host memory that kernels reach", [=] { return cudaFreeHost(memory); });
  }

  void drain(int device) noexcept override {
    quietly(device, "waiting for a device", [] { return cudaDeviceSynchronize(); });
  }

  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cannot copy");
  }
  void fill_zero(void* memory, std::size_t bytes, NativeStream stream) override {
    check(cudaMemsetAsync(memory, 0, bytes, stream), "cannot clear memory");
  }
  void divide(View data, std::int64_t divisor, NativeStream stream) override {
    const Current current(*this, data.device().index());
    launched(kernels::divide(data, divisor, stream), "divide", data.device());
  }
  void scale(View data, double factor, NativeStream stream) override {
    const Current current(*this, data.device().index());
    launched(kernels::scale(data, factor, stream), "scale", data.device());
  }
  void add(View to, ConstView from, NativeStream stream) override {
    const Current current(*this, to.device().index());
    launched(kernels::add(to, from, stream), "add", to.device());
  }
  void square_sums(View sums, ConstView data, std::int64_t block, NativeStream stream) override {
    const Current current(*this, data.device().index());
    launched(kernels::square_sums(sums, data, block, stream), "squares", data.device());
  }
  void count_bad(View counts, ConstView data, NativeStream stream) override {
    const Current current(*this, data.device().index());
    launched(kernels::count_bad(counts, data, stream), "count", data.device());
  }
  void cast(View to, ConstView from, NativeStream stream) override {
    const Current current(*this, to.device().index());
    launched(kernels::cast(to, from, stream), "cast", to.device());
  }
  void fill(View data, double value, NativeStream stream) override {
    const Current current(*this, data.device().index());
    launched(kernels::fill(data, value, stream), "fill", data.device());
  }
  void pack(View flat, std::span<const ConstView> pieces, NativeStream stream) override {
    const Current current(*this, flat.device().index());
    launched(kernels::pack(flat, pieces, stream), "pack", flat.device());
  }

 private:
  static void launched(cudaError_t code, const char* kernel, Device device) {
    if (code == cudaSuccess) return;
    cudaGetLastError();
    reported = code;
    refuse(code, text("cannot launch ", kernel, " on ", device));
  }
};

}  // namespace

std::shared_ptr<Runtime> make_driver() {
  return std::make_shared<Driver>();
}

}  // namespace weft::detail::cuda
