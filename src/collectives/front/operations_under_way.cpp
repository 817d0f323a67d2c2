#include "collectives/front/operations_under_way.hpp"

#include "core/streams/stream_state.hpp"

namespace weft::detail {

void OperationsUnderWay::forget_those_over() {
  while (!all_.empty() && !StreamAccess::completion(all_.front().second)->pending()) all_.pop_front();
}

void OperationsUnderWay::issued(std::uint64_t number, const Event& event) {
  const std::lock_guard lock(mutex_);
  forget_those_over();
  all_.emplace_back(number, event);
}

void OperationsUnderWay::progress_before(std::uint64_t number) {
  Event oldest;
  {
    const std::lock_guard lock(mutex_);
    forget_those_over();
    if (all_.empty() || all_.front().first >= number) return;
    oldest = all_.front().second;
  }
  oldest.done();  // progresses its stream
}

}  // namespace weft::detail
