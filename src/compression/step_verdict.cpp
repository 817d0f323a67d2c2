#include "compression/step_verdict.hpp"

#include <atomic>
#include <utility>

#include "core/cuda/runtime.hpp"

namespace weft::detail {
namespace {

Buffer word_of(Device device) {
  if (device.is_host()) return Buffer::on_host(DataType::i32, 1);
  auto cuda = cuda::runtime();
  void* const word = cuda->allocate_on_host(device.index(), sizeof(std::int32_t));
  return Buffer(View(word, 1, DataType::i32),
                [cuda, device](void* memory) { cuda->release_on_host(device.index(), memory); });
}

}  // namespace

StepVerdict::StepVerdict(Device device) : bad_(word_of(device)) {}

void StepVerdict::found_bad() {
  std::atomic_ref(*bad()).store(1, std::memory_order_relaxed);
}

bool StepVerdict::settle() {
  const RecycledVector<Event> done = std::exchange(done_, {});
  for (const Event& event : done) event.wait();
  return std::atomic_ref(*bad()).exchange(0, std::memory_order_relaxed) == 0 && !done.empty();
}

}  // namespace weft::detail
