#pragma once
// A CUDA stream behind Stream, and its points behind Event.
//
// It is an inline stream of the host whose tasks hand work to the device: a task is finished once the device
// has it. An event recorded there is a CUDA event; another CUDA stream waits for it on the device, and the
// host only where it is told to. Work that must wait for the host (an event of a host stream) stays in the
// host's queue.
//
// The device knows nothing of errors that weft finds (a collective that was given up ends like any other), so
// a timeline remembers from where on its work is void, and what it waited for on other timelines.

#include <mutex>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "core/stream_state.hpp"

namespace weft::detail::cuda {

/// One CUDA stream and the places that were marked in it.
class Timeline : public std::enable_shared_from_this<Timeline> {
 public:
  /// @param native null: makes one and destroys it
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
    /// Whether the device is past it, failed or not. @throws Error (system) as the driver does
    bool reached() const { return timeline_->runtime_->passed(event_); }

    Timeline& timeline() const { return *timeline_; }
    NativeEvent event() const { return event_; }
    std::uint64_t place() const { return place_; }

   private:
    std::shared_ptr<Timeline> timeline_;
    NativeEvent event_;
    std::uint64_t place_;
  };

  /// The place after everything handed over so far. The same one again when nothing was handed over between.
  std::shared_ptr<Point> mark();
  /// Tells that work was handed over.
  void touch();
  /// What comes now runs on the device after `point`, and fails with it.
  void wait_for(const std::shared_ptr<Point>& point);
  /// What was handed over after `place` is void.
  void fail_after(std::uint64_t place, std::exception_ptr error);

 private:
  NativeEvent take_event();
  void give_back(NativeEvent event) noexcept;
  std::exception_ptr failure_before(std::uint64_t place);

  struct Join {
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
  RecycledDeque<Join> joins_;  // by place; those that were passed without an error are gone
  std::uint64_t void_after_ = 0;
  std::exception_ptr error_;
};

class CudaStream final : public InlineStream {
 public:
  explicit CudaStream(std::shared_ptr<Timeline> timeline) : timeline_(std::move(timeline)) {}
  ~CudaStream() override { CudaStream::close(); }

  void close() noexcept override;
  Device device() const override { return Device::cuda(timeline_->device()); }
  bool is_inline() const override { return false; }  // its work goes on by itself
  std::shared_ptr<Completion> record() override;
  std::unique_ptr<Task> wait_for(Event event) override;
  Timeline& timeline() const { return *timeline_; }

 private:
  void begin() override;
  void conclude(Completion& completion) override;

  std::shared_ptr<Timeline> timeline_;
};

/// @param native null: a new one
std::shared_ptr<StreamState> make_stream(int device, NativeStream native);

/// Of a stream of a CUDA device. @throws Error (usage) for a host stream
Timeline& timeline_of(const Stream& stream);

}  // namespace weft::detail::cuda
