#include "compression/hooks/non_finite_guard.hpp"

#include <atomic>
#include <utility>

#include "core/cuda/runtime.hpp"

namespace weft::detail {
namespace {

Buffer flag_on(Device device) {
  if (device.is_host()) return Buffer::on_host(DataType::i32, 1);
  auto cuda = cuda::runtime();
  void* const flag = cuda->allocate_on_host(device.index(), sizeof(std::int32_t));
  return Buffer(View(flag, 1, DataType::i32),
                [cuda, device](void* memory) { cuda->release_on_host(device.index(), memory); });
}

}  // namespace

NonFiniteGuard::NonFiniteGuard(Device device) : flag_(flag_on(device)) {}

void NonFiniteGuard::found_non_finite() {
  std::atomic_ref(*flag()).store(1, std::memory_order_relaxed);
}

bool NonFiniteGuard::finish_step() {
  const RecycledVector<Event> done = std::exchange(done_, {});
  for (const Event& event : done) event.wait();
  return std::atomic_ref(*flag()).exchange(0, std::memory_order_relaxed) == 0 && !done.empty();
}

}  // namespace weft::detail
