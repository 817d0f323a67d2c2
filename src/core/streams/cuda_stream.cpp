#include "core/streams/cuda_stream.hpp"

#include <utility>

#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::detail::cuda {
namespace {

constexpr std::size_t most_dependencies = 64;

}  // namespace

Timeline::Timeline(std::shared_ptr<Runtime> runtime, int device, bool first)
    : runtime_(std::move(runtime)),
      device_(device),
      native_(runtime_->make_stream(device, first)),
      owned_(true) {}

Timeline::Timeline(std::shared_ptr<Runtime> runtime, int device, NativeStream native)
    : runtime_(std::move(runtime)), device_(device), native_(native), owned_(false) {}

Timeline::~Timeline() {
  for (const NativeEvent event : free_events_) runtime_->destroy(event);
  if (owned_) runtime_->destroy(native_);
}

NativeEvent Timeline::take_event() {
  if (free_events_.empty()) return runtime_->make_event(device_, false);
  const NativeEvent event = free_events_.back();
  free_events_.pop_back();
  return event;
}

void Timeline::give_back(NativeEvent event) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    free_events_.push_back(event);
  } catch (...) {
    runtime_->destroy(event);
  }
}

std::shared_ptr<Timeline::Point> Timeline::mark() {
  const std::lock_guard lock(mutex_);
  if (!touched_) {
    if (auto latest = latest_.lock()) return latest;
  }
  const NativeEvent event = take_event();
  const Current current(*runtime_, device_);  // the default stream is the current device's
  try {
    runtime_->record(event, native_);
  } catch (...) {
    free_events_.push_back(event);
    throw;
  }
  auto point = make_recycled<Point>(shared_from_this(), event, ++place_);
  touched_ = false;
  latest_ = point;
  return point;
}

void Timeline::touch() {
  const std::lock_guard lock(mutex_);
  touched_ = true;
}

void Timeline::wait_for(const std::shared_ptr<Point>& point) {
  if (&point->timeline() == this) return;
  {
    const Current current(*runtime_, device_);
    runtime_->wait(native_, point->event());
  }
  std::optional<std::uint64_t> oldest;
  {
    const std::lock_guard lock(mutex_);
    touched_ = true;
    dependencies_.push_back({place_ + 1, point});
    if (dependencies_.size() > most_dependencies) oldest = dependencies_.front().place;
  }
  if (oldest) failure_before(*oldest);  // drops dependencies that passed, though no point may ever be asked
}

void Timeline::fail_after(std::uint64_t place, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_ && void_after_ <= place) return;
  void_after_ = place;
  error_ = std::move(error);
}

// A dependency's point is asked without the lock, because that takes the lock of its timeline, which may be
// asking a point of this one.
std::exception_ptr Timeline::failure_before(std::uint64_t place) {
  for (;;) {
    Dependency dependency;
    {
      const std::lock_guard lock(mutex_);
      if (error_ && void_after_ < place) return error_;
      if (dependencies_.empty() || dependencies_.front().place > place) return nullptr;
      dependency = dependencies_.front();
    }
    try {
      if (!dependency.point->passed()) return nullptr;
    } catch (...) {
      fail_after(dependency.place - 1, std::current_exception());
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (!dependencies_.empty() && dependencies_.front().point == dependency.point) dependencies_.pop_front();
  }
}

Timeline::Point::Point(std::shared_ptr<Timeline> timeline, NativeEvent event, std::uint64_t place)
    : timeline_(std::move(timeline)), event_(event), place_(place) {}

Timeline::Point::~Point() {
  timeline_->give_back(event_);
}

bool Timeline::Point::passed() {
  if (!timeline_->runtime_->passed(event_)) return false;
  if (const auto error = timeline_->failure_before(place_)) std::rethrow_exception(error);
  return true;
}

namespace {

/// Waits for an event of a device on the device, and for an event of the host in the host's queue.
class Wait final : public Task {
 public:
  Wait(std::shared_ptr<Timeline> timeline, Event event)
      : timeline_(std::move(timeline)), event_(std::move(event)) {}

  bool advance() override {
    const bool done = event_.done();
    if (auto error = event_.error()) std::rethrow_exception(error);
    if (done) return true;
    const auto point = std::dynamic_pointer_cast<Timeline::Point>(StreamAccess::completion(event_)->point());
    if (point) timeline_->wait_for(point);
    return point != nullptr;
  }

 private:
  std::shared_ptr<Timeline> timeline_;
  Event event_;
};

}  // namespace

// A replayed graph does not come by here: nothing would count its operations, compare them among ranks or see that one hangs. And the host, which
// asks events whether the device has passed them, cannot ask those of a capture.
void CudaStream::admit() {
  if (!timeline_->runtime().capturing(timeline_->native(), timeline_->device())) return;
  throw Error(ErrorKind::usage,
              text("work of weft on a stream of ", device(), " that is being captured into a CUDA graph"),
              "weft numbers, compares and watches its operations on the host, which a replayed graph does "
              "not pass: end the capture "
              "before it; graphs may hold what is computed between weft's calls");
}

void CudaStream::close() noexcept {
  if (!finish()) return;
  try {
    if (timeline_->runtime().capturing(timeline_->native(), timeline_->device()))
      return;  // weft gave it nothing since
    const auto last = timeline_->mark();
    for (Backoff backoff; !last->reached(); backoff.pause()) {
    }
    settle();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the waits for this work reported it
  }
}

void CudaStream::progress() {
  InlineStream::progress();
  settle();
}

void CudaStream::watch(std::shared_ptr<Completion> completion) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(std::move(completion));
  watches_.store(true, std::memory_order_release);
}

// A completion that is no longer pending has released its functions. The device is asked without the lock.
void CudaStream::settle() {
  if (!watches_.load(std::memory_order_acquire)) return;
  const DueCalls due;
  decltype(watched_) all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(watched_);
    watches_.store(false, std::memory_order_release);
  }
  std::erase_if(all, [](const auto& one) { return !one->pending(); });
  if (all.empty()) return;
  const std::lock_guard lock(mutex_);
  watched_.insert(watched_.begin(), all.begin(), all.end());
  watches_.store(true, std::memory_order_release);
}

void CudaStream::begin() {
  timeline_->touch();
}

void CudaStream::conclude(Completion& completion) {
  completion.hand_over(timeline_->mark());
}

std::shared_ptr<Completion> CudaStream::record() {
  admit();
  auto last = StreamState::record();
  // The last task is still in the host's queue, or failed there.
  if (last && ((last->pending() && !last->point()) || last->error())) return last;
  timeline_->touch();  // others may have launched on the native stream
  auto completion = make_recycled<Completion>(weak_from_this());
  completion->hand_over(timeline_->mark());
  return completion;
}

std::unique_ptr<Task> CudaStream::wait_for(Event event) {
  return std::make_unique<Wait>(timeline_, std::move(event));
}

namespace {

std::shared_ptr<Runtime> runtime_with(int device) {
  auto cuda = runtime();
  const int devices = cuda->devices();
  if (device < 0 || device >= devices) {
    throw Error(ErrorKind::usage, text("a stream on ", Device::cuda(device), " of ", devices, " device(s)"),
                "devices are numbered from 0, after CUDA_VISIBLE_DEVICES");
  }
  return cuda;
}

}  // namespace

std::shared_ptr<StreamState> make_stream(int device, StreamPriority priority) {
  return StreamState::handle(std::make_shared<CudaStream>(
      std::make_shared<Timeline>(runtime_with(device), device, priority == StreamPriority::high)));
}

std::shared_ptr<StreamState> adopt_stream(int device, NativeStream native) {
  return StreamState::handle(
      std::make_shared<CudaStream>(std::make_shared<Timeline>(runtime_with(device), device, native)));
}

Timeline& timeline_of(const Stream& stream) {
  const auto* state = dynamic_cast<const CudaStream*>(StreamAccess::state(stream).get());
  if (state == nullptr) {
    throw Error(ErrorKind::usage, "a host stream where a stream of a CUDA device is needed",
                "make it with Stream(Device::cuda(index))");
  }
  return state->timeline();
}

Place place_of(const Stream& stream) {
  const Timeline& timeline = timeline_of(stream);
  return {timeline.device(), timeline.native()};
}

}  // namespace weft::detail::cuda

namespace weft {
namespace {

CUstream_st* const per_thread = reinterpret_cast<CUstream_st*>(2);  // NOLINT: cudaStreamPerThread

}  // namespace

CUstream_st* native_handle(const Stream& stream) {
  return detail::cuda::timeline_of(stream).native();
}

Stream adopt_stream(CUstream_st* native, Device device) {
  if (device.is_host()) {
    throw Error(ErrorKind::usage, "a CUDA stream adopted as a stream of the host",
                "name the device it belongs to");
  }
  if (native == per_thread) {
    throw Error(ErrorKind::usage,
                "CUDA's per-thread default stream adopted: it is another stream on every thread",
                "make a stream, and adopt that");
  }
  auto stream = detail::StreamAccess::stream(detail::cuda::adopt_stream(device.index(), native));
  if (native != nullptr && !detail::cuda::runtime()->is_on(native, device.index())) {
    throw Error(ErrorKind::usage, text("a CUDA stream of another device adopted as one of ", device),
                "name the device that was current when it was made");
  }
  return stream;
}

}  // namespace weft
