// Stands in for CUDA's runtime library: device memory is the host's, a stream is a thread that does what it is given in order, kernels
// run in grid.cpp. Asynchronous is what is so on a device. An error of a kernel stays, as it does there: every later call fails with it.
//
// WEFT_EMULATED_DEVICES says how many devices there are; 2 where it is not set. With WEFT_EMULATED_LOST=N the device is lost when the N-th event
// is recorded.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "emulation/grid.hpp"

using Clock = std::chrono::steady_clock;

struct CUstream_st {
  explicit CUstream_st(int of) : device(of), worker([this] { work(); }) {}
  ~CUstream_st() {
    push(nullptr);
    worker.join();
  }
  void push(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(task));
      ++pending;
    }
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return pending == 0; });
  }
  void work() {
    for (bool goes_on = true; goes_on;) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !queue.empty(); });
      const auto task = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      goes_on = task != nullptr;
      if (goes_on) task();
      lock.lock();
      --pending;
      changed.notify_all();
    }
  }

  int device;
  std::atomic<bool> captured = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  int pending = 0;
  std::thread worker;
};

struct CUevent_st {
  explicit CUevent_st(int of) : device(of) {}
  struct Mark {
    std::atomic<bool> passed = false;
    Clock::time_point at;
  };
  int device;
  bool timed = true;
  std::mutex mutex;
  std::shared_ptr<Mark> mark;

  std::shared_ptr<Mark> get() {
    const std::lock_guard lock(mutex);
    return mark;
  }
};

namespace {

thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;
std::atomic<cudaError_t> broken = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
std::atomic<int> captures = 0;  // that forbid calls on all threads
std::atomic<bool> capture_invalid = false;

/// Where this thread's call is one that a capture forbids, the capture is over.
cudaError_t beside_captures() {
  if (captures == 0 || capture_mode != cudaStreamCaptureModeGlobal) return cudaSuccess;
  capture_invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

int devices() {
  const char* text = std::getenv("WEFT_EMULATED_DEVICES");
  return text == nullptr ? 2 : std::atoi(text);
}

cudaError_t said(cudaError_t code) {
  if (code == cudaSuccess) code = broken;
  if (code != cudaSuccess && code != cudaErrorNotReady) last = code;
  return code;
}

/// All streams, and each device's default one. Never destroyed: threads may use them at the process's end.
struct Streams {
  std::mutex mutex;
  std::set<CUstream_st*> all;
  std::deque<std::unique_ptr<CUstream_st>> defaults;

  CUstream_st& of(cudaStream_t stream) {
    if (stream != nullptr) return *stream;
    const std::lock_guard lock(mutex);
    while (defaults.size() <= static_cast<std::size_t>(current)) {
      defaults.push_back(std::make_unique<CUstream_st>(static_cast<int>(defaults.size())));
      all.insert(defaults.back().get());
    }
    return *defaults[static_cast<std::size_t>(current)];
  }
  void drain(int device) {
    std::set<CUstream_st*> some;
    {
      const std::lock_guard lock(mutex);
      some = all;
    }
    for (CUstream_st* one : some) {
      if (one->device == device) one->drain();
    }
  }
};
Streams& streams() {
  static auto* const one = new Streams;
  return *one;
}

/// The kernels that each device has.
struct Loaded {
  std::mutex mutex;
  std::set<std::pair<int, const void*>> kernels;

  bool is_new(const void* kernel) {
    const std::lock_guard lock(mutex);
    return kernels.insert({current, kernel}).second;
  }
};
Loaded& loaded() {
  static auto* const one = new Loaded;
  return *one;
}

}  // namespace

cudaError_t emulated_launch(const void* kernel, dim3 blocks, dim3 threads, cudaStream_t stream,
                            std::function<void()> thread) {
  constexpr unsigned most_threads = 1024;
  constexpr unsigned most_rows = 65535;
  const unsigned all = threads.x * threads.y * threads.z;
  if (blocks.x == 0 || blocks.x > 0x7fffffffU || blocks.y == 0 || blocks.y > most_rows || blocks.z == 0 ||
      blocks.z > most_rows || all == 0 || all > most_threads)
    return said(cudaErrorInvalidConfiguration);
  if (broken != cudaSuccess) return said(broken);
  // CUDA C++ Programming Guide, "Stream and Event Behavior".
  if (streams().of(stream).device != current) return said(cudaErrorInvalidResourceHandle);
  if (captures == 0 && loaded().is_new(kernel)) streams().drain(current);
  streams().of(stream).push([=, thread = std::move(thread)] {
    const std::string fault = weft::emulation::run(blocks, threads, thread);
    if (fault.empty()) return;
    std::fprintf(stderr, "emulated kernel: %s\n", fault.c_str());
    broken = cudaErrorLaunchFailure;
  });
  return cudaSuccess;
}

extern "C" {

// An error that breaks the device is not cleared (CUDA Runtime API, "Error Handling": subsequent calls fail with it).
cudaError_t cudaGetLastError() {
  const cudaError_t code = std::exchange(last, cudaSuccess);
  return broken != cudaSuccess ? broken.load() : code;
}
const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    case cudaErrorMisalignedAddress:
      return "misaligned address";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "error";
  }
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return said(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return said(cudaErrorInvalidDevice);
  current = device;
  return said(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= devices()) return said(cudaErrorInvalidDevice);
  std::snprintf(properties->name, sizeof(properties->name), "emulated");
  properties->uuid.bytes[0] = static_cast<char>(device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= devices()) return said(cudaErrorInvalidValue);
  *value = attribute == cudaDevAttrMultiProcessorCount ? 132 : 2;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  streams().drain(current);
  return said(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st(current);
  const std::lock_guard lock(streams().mutex);
  streams().all.insert(*stream);
  return said(cudaSuccess);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return said(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(streams().mutex);
    streams().all.erase(stream);
  }
  delete stream;
  return said(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  streams().of(stream).drain();
  return said(cudaSuccess);
}
// A graph is never run here. What matters is what a capture forbids (CUDA C++ Programming Guide, "Prohibited and Unhandled Operations").
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr || mode != cudaStreamCaptureModeGlobal)
    return said(cudaErrorStreamCaptureUnsupported);
  stream->captured = true;
  ++captures;
  return said(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  stream->captured = false;
  *graph = nullptr;
  if (--captures == 0 && capture_invalid.exchange(false)) return said(cudaErrorStreamCaptureInvalidated);
  return said(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status =
      stream != nullptr && stream->captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return said(cudaSuccess);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return said(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  streams().of(stream).push([mark = event->get()] {
    while (mark && !mark->passed) std::this_thread::yield();
  });
  return said(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data) {
  streams().of(stream).push([=] { function(data); });
  return said(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st(current);
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return said(cudaSuccess);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  static const char* const lost = std::getenv("WEFT_EMULATED_LOST");
  static std::atomic<int> recorded = 0;
  if (lost != nullptr && ++recorded == std::atoi(lost)) broken = cudaErrorECCUncorrectable;
  if (streams().of(stream).device != event->device) return said(cudaErrorInvalidResourceHandle);
  auto mark = std::make_shared<CUevent_st::Mark>();
  {
    const std::lock_guard lock(event->mutex);
    event->mark = mark;
  }
  streams().of(stream).push([mark] {
    mark->at = Clock::now();
    mark->passed = true;
  });
  return said(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t code = beside_captures(); code != cudaSuccess) return said(code);
  const auto mark = event->get();
  return said(!mark || mark->passed ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->timed || !end->timed || !begin->get() || !end->get())
    return said(cudaErrorInvalidResourceHandle);
  if (!begin->get()->passed || !end->get()->passed) return said(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->get()->at - begin->get()->at).count();
  return said(cudaSuccess);
}

cudaError_t cudaFree(void* memory) {
  if (const cudaError_t code = beside_captures(); code != cudaSuccess) return said(code);
  for (int device = 0; device < devices(); ++device) streams().drain(device);
  std::free(memory);
  return said(cudaSuccess);
}
cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}
// Nothing is counted.
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{80} << 30U;
  return said(cudaSuccess);
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  const cudaError_t code = cudaMemsetAsync(memory, value, bytes, nullptr);
  return code == cudaSuccess ? cudaStreamSynchronize(nullptr) : code;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  streams().of(stream).push([=] { std::memset(memory, value, bytes); });
  return said(cudaSuccess);
}
// From memory of the host that is not pinned, CUDA has copied when it returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes > 0 && (to == nullptr || from == nullptr)) return said(cudaErrorInvalidValue);
  streams().of(stream).push([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  if (kind == cudaMemcpyHostToDevice) streams().of(stream).drain();
  return said(cudaSuccess);
}

}  // extern "C"

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  constexpr std::size_t alignment = 256;  // what cudaMalloc promises
  constexpr std::size_t most = std::size_t{1} << 40U;
  const bool fits = bytes <= most && posix_memalign(memory, alignment, bytes) == 0;
  return said(fits ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return cudaMalloc(memory, bytes);
}
