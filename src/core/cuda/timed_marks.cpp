#include "core/cuda/timed_marks.hpp"

#include "weft/interop/cuda.hpp"

namespace weft::detail::cuda {

TimedMarks::~TimedMarks() {
  for (const NativeEvent event : all_) runtime_->destroy(event);
}

TimedMarks::Mark TimedMarks::take(Stream& stream) {
  if (free_.empty()) {
    all_.reserve(all_.size() + 1);
    all_.push_back(runtime_->make_event(device_, true));
    free_.push_back(all_.back());
  }
  const Mark mark{free_.back(), make_recycled<std::atomic<bool>>(false)};
  free_.pop_back();
  stream.run([self = shared_from_this(), mark, native = native_handle(stream)] {
    self->runtime_->record(mark.event, native);
    *mark.recorded = true;
  });
  return mark;
}

}  // namespace weft::detail::cuda
