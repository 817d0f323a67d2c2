#pragma once
// A Stream over a CUDA stream, with Events that are CUDA events.
//
// CudaStream is an inline host stream whose tasks hand work to the device: a task is finished when the device
// has the work. Another CUDA stream waits for an event of it on the device; the host waits only where the
// program says so. Work that must wait for the host (an event of a host stream) stays in the host's queue.
//
// The device does not know of errors that weft finds: a collective that was aborted ends like any other. A
// Timeline therefore keeps the place after which its work is void, and the points of other timelines that it
// waited for, whose failures it takes over.

#include <mutex>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "core/streams/host_stream.hpp"

namespace weft::detail::cuda {

/// One CUDA stream and the places that were recorded in it, numbered in order.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  /// Over a CUDA stream that it makes and destroys.
  Timeline(std::shared_ptr<Runtime> runtime, int device, bool first);
  /// @param native of `device`, and not its own; null is CUDA's default stream
  Timeline(std::shared_ptr<Runtime> runtime, int device, NativeStream native);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  Runtime& runtime() const { return *runtime_; }
  int device() const { return device_; }
  NativeStream native() const { return native_; }

  class Point final : public DevicePoint {
   public:
    Point(std::shared_ptr<Timeline> timeline, NativeEvent event, std::uint64_t place);
    ~Point() override;
    bool passed() override;
    /// Whether the device is past it, whether or not the work failed. @throws Error (system) for a driver
    /// error
    bool reached() const { return timeline_->runtime_->passed(event_); }

    Timeline& timeline() const { return *timeline_; }
    NativeEvent event() const { return event_; }
    std::uint64_t place() const { return place_; }

   private:
    std::shared_ptr<Timeline> timeline_;
    NativeEvent event_;
    std::uint64_t place_;
  };

  /// A point after everything handed over so far; the latest one again if nothing was handed over since.
  std::shared_ptr<Point> mark();
  /// Called when work was handed over: the next mark() records a new event.
  void touch();
  /// Work handed over from now on runs on the device after `point`, and fails with it.
  void wait_for(const std::shared_ptr<Point>& point);
  /// Makes all work after `place` fail with `error`.
  void fail_after(std::uint64_t place, std::exception_ptr error);

 private:
  NativeEvent take_event();
  void give_back(NativeEvent event) noexcept;
  /// The error that voids work up to `place`, if there is one. Looks at the dependencies and forgets those
  /// that passed.
  std::exception_ptr failure_before(std::uint64_t place);

  /// From `place` on, work comes after a point of another timeline.
  struct Dependency {
    std::uint64_t place;
    std::shared_ptr<Point> point;
  };

  std::shared_ptr<Runtime> runtime_;
  int device_;
  NativeStream native_;
  bool owned_;
  std::mutex mutex_;
  std::vector<NativeEvent> free_events_;
  std::weak_ptr<Point> latest_;
  bool touched_ = true;
  std::uint64_t place_ = 0;
  RecycledDeque<Dependency> dependencies_;  // by place; those that passed without an error are dropped
  std::uint64_t void_after_ = 0;            // where there is an error_
  std::exception_ptr error_;
};

class CudaStream final : public InlineStream {
 public:
  explicit CudaStream(std::shared_ptr<Timeline> timeline) : timeline_(std::move(timeline)) {}
  ~CudaStream() override { CudaStream::close(); }

  void close() noexcept override;
  Device device() const override { return Device::cuda(timeline_->device()); }
  bool is_inline() const override { return false; }  // the device works without a host thread
  void admit() override;
  void progress() override;
  void watch(std::shared_ptr<Completion> completion) override;
  void settle() override;
  std::shared_ptr<Completion> record() override;
  std::unique_ptr<Task> wait_for(Event event) override;
  Timeline& timeline() const { return *timeline_; }

 private:
  void begin() override;
  void conclude(Completion& completion) override;

  std::shared_ptr<Timeline> timeline_;
  RecycledVector<std::shared_ptr<Completion>> watched_;  // guarded by mutex_
  std::atomic<bool> watches_{false};                     // whether there are any, readable without the lock
};

/// A pointer for handles to share, to a new CUDA stream or to one that is adopted.
std::shared_ptr<StreamState> make_stream(int device, StreamPriority priority);
std::shared_ptr<StreamState> adopt_stream(int device, NativeStream native);

/// The timeline of a stream of a CUDA device. @throws Error (usage) for a host stream
Timeline& timeline_of(const Stream& stream);
/// @throws Error (usage) for a host stream
Place place_of(const Stream& stream);

}  // namespace weft::detail::cuda
