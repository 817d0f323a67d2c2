#pragma once
// A device that is held up by a kernel, and calls beside it, each in a thread of its own that is given up on when it does not return.

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <semaphore>
#include <string>
#include <thread>

#include "gpu/timing.hpp"
#include "gpu/waiting_kernels.hpp"

namespace weft::test {

/// Ends the process: what comes after a failed call says nothing.
inline void expect(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::cerr << what << ": CUDA: " << cudaGetErrorString(code) << '\n';
  std::_Exit(70);
}

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  return stream;
}

inline cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  expect(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  return event;
}

/// A kernel that waits on a stream, from the constructor until release(), or for 8 seconds.
class HeldDevice {
 public:
  explicit HeldDevice(cudaStream_t stream) : stream_(stream) {
    void* memory = nullptr;
    expect(cudaHostAlloc(&memory, sizeof(Signals), cudaHostAllocPortable | cudaHostAllocMapped),
           "memory of the host");
    *static_cast<Signals*>(memory) = {};
    signals_ = static_cast<volatile Signals*>(memory);
    expect(launch_waiting(signals_, 8, stream_), "a kernel");
    while (signals_->begun == 0) std::this_thread::yield();
  }
  ~HeldDevice() {
    release();
    expect(cudaStreamSynchronize(stream_), "a kernel");
    cudaFreeHost(const_cast<Signals*>(signals_));
  }
  HeldDevice(const HeldDevice&) = delete;
  HeldDevice& operator=(const HeldDevice&) = delete;

  void release() { signals_->released = 1; }

 private:
  cudaStream_t stream_;
  volatile Signals* signals_ = nullptr;
};

/// A call in a thread of its own, which may have been prepared before.
class TimedCall {
 public:
  explicit TimedCall(std::function<cudaError_t()> call, bool has_device = true)
      : thread_([this, call = std::move(call), has_device] {
          if (has_device) expect(cudaSetDevice(0), "the device");
          ready_.release();
          go_.acquire();
          if (!is_started_) return;
          const auto begin = std::chrono::steady_clock::now();
          code_ = call();
          milliseconds_ =
              std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
          done_ = true;
        }) {
    ready_.acquire();
  }
  ~TimedCall() {
    if (!is_started_) go_.release();
    join();
  }
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;

  /// Starts it where it has not been. @returns whether it returned within that time
  bool start(std::chrono::milliseconds limit) {
    if (!is_started_.exchange(true)) go_.release();
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done_ && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    return done_;
  }
  bool done() const { return done_; }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// Once it has returned.
  double milliseconds() const { return milliseconds_; }
  cudaError_t code() const { return code_; }

 private:
  std::binary_semaphore ready_{0};
  std::binary_semaphore go_{0};
  std::atomic<bool> is_started_ = false;
  std::atomic<bool> done_ = false;
  double milliseconds_ = 0;
  cudaError_t code_ = cudaSuccess;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace weft::test
