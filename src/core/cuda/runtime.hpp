#pragma once
// What weft needs of CUDA, as one interface, so that the logic of streams, events and buffers is compiled and
// tested without CUDA, over a fake (tests/support/fake_cuda.hpp).
//
// A call names the device it works on and leaves the thread's current device as it was. Calls throw Error:
// (usage) for a wrong argument, (system) with the driver's own words for what the driver refuses; those that
// are noexcept log it. Any thread may call.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/core/view.hpp"

struct CUstream_st;  // cudaStream_t and cudaEvent_t are pointers to these
struct CUevent_st;

namespace weft::detail::cuda {

using NativeStream = CUstream_st*;
using NativeEvent = CUevent_st*;

/// A stream, and the device that it belongs to.
struct Place {
  int device = 0;
  NativeStream stream = nullptr;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// @throws Error (system) without a driver, or with one older than the toolkit
  virtual int devices() = 0;
  /// The device's UUID, which is the same in every process. @throws Error (usage) when there is none
  virtual std::string identity(int device) = 0;
  virtual int current() = 0;
  virtual void make_current(int device) = 0;

  /// @param first its kernels begin before those of other streams that wait for room
  virtual NativeStream make_stream(int device, bool first) = 0;
  virtual void destroy(NativeStream stream) noexcept = 0;
  /// Whether a stream that others made is of this device.
  virtual bool is_on(NativeStream stream, int device) = 0;
  /// Whether what it is given goes into a CUDA graph. @param stream of `device`; null is its default one
  virtual bool capturing(NativeStream stream, int device) = 0;

  /// @param timed seconds_between() will be asked of it; such an event costs more to record
  virtual NativeEvent make_event(int device, bool timed) = 0;
  virtual void destroy(NativeEvent event) noexcept = 0;
  virtual void record(NativeEvent event, NativeStream stream) = 0;
  /// @throws Error (system) when work before it failed
  virtual bool passed(NativeEvent event) = 0;
  virtual double seconds_between(NativeEvent begin, NativeEvent end) = 0;
  /// Later work of `stream` starts after `event`.
  virtual void wait(NativeStream stream, NativeEvent event) = 0;

  /// Zeroed device memory; release() it when no stream uses it any more.
  virtual void* allocate(int device, std::size_t bytes) = 0;
  virtual void release(int device, void* memory) noexcept = 0;
  /// Zeroed host memory that the device's kernels reach at the same address. A host thread sees what a kernel
  /// wrote there once passed() is true of an event that was recorded after the kernel.
  virtual void* allocate_on_host(int device, std::size_t bytes) = 0;
  virtual void release_on_host(int device, void* memory) noexcept = 0;

  /// Returns when the device has done what it was given, as cudaFree does.
  virtual void drain(int device) noexcept = 0;

  // Work, in the order of a stream.
  virtual void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) = 0;
  virtual void fill_zero(void* memory, std::size_t bytes, NativeStream stream) = 0;
  virtual void divide(View data, std::int64_t divisor, NativeStream stream) = 0;
  virtual void scale(View data, double factor, NativeStream stream) = 0;
  virtual void add(View to, ConstView from, NativeStream stream) = 0;
  virtual void square_sums(View sums, ConstView data, std::int64_t block, NativeStream stream) = 0;
  virtual void count_bad(View counts, ConstView data, NativeStream stream) = 0;
  virtual void cast(View to, ConstView from, NativeStream stream) = 0;
  virtual void fill(View data, double value, NativeStream stream) = 0;
  virtual void pack(View flat, std::span<const ConstView> pieces, NativeStream stream) = 0;
};

/// Makes a device the thread's current one for a scope: for libraries that look there.
class Current {
 public:
  Current(Runtime& runtime, int device)
      : runtime_(runtime), before_(runtime.current()), is_changed_(before_ != device) {
    if (is_changed_) runtime_.make_current(device);
  }
  ~Current() {
    if (!is_changed_) return;
    try {
      runtime_.make_current(before_);
    } catch (...) {  // NOLINT(bugprone-empty-catch): that device is lost, which its next call reports
    }
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  Runtime& runtime_;
  int before_;
  bool is_changed_;
};

/// NVIDIA's runtime library as a Runtime (driver.cpp). Only in builds with CUDA.
std::shared_ptr<Runtime> make_driver();

/// The process's Runtime. @throws Error (usage) in a build without CUDA
std::shared_ptr<Runtime> runtime();

/// Replaces it, for tests; streams and buffers that exist keep the one they have. Null: CUDA's own again.
void replace_runtime(std::shared_ptr<Runtime> other);

}  // namespace weft::detail::cuda
