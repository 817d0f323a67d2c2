#include "collectives/communicator/operations_under_way.hpp"

#include <algorithm>
#include <utility>

#include "core/streams/stream_state.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t some = 64;

bool is_over(const Event& event) {
  return !StreamAccess::completion(event)->pending();
}

}  // namespace

void OperationsUnderWay::issued(const Event& event) {
  if (is_over(event)) return;  // most are that do not wait for others
  const std::lock_guard lock(mutex_);
  if (all_.size() >= some) forget_those_over();
  all_.push_back({std::this_thread::get_id(), event});
}

void OperationsUnderWay::forget_those_over() {
  std::erase_if(all_, [](const Issued& one) { return is_over(one.event); });
}

void OperationsUnderWay::progress() {
  static thread_local bool is_at_it = false;  // one that gets its turn here waits, too, and would give turns
  if (std::exchange(is_at_it, true)) return;
  RecycledVector<Event> waiting;
  {
    const std::lock_guard lock(mutex_);
    forget_those_over();
    for (const Issued& one : all_) {
      if (one.by == std::this_thread::get_id()) waiting.push_back(one.event);
    }
  }
  for (const Event& one : waiting) one.done();  // progresses its stream
  is_at_it = false;
}

}  // namespace weft::detail
