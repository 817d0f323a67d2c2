#include "weft/core/buffer.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/cuda/runtime.hpp"
#include "core/pages.hpp"
#include "core/round_up.hpp"

namespace weft {

Buffer Buffer::on(Device device, DataType dtype, std::int64_t count) {
  if (device.is_host() || count < 0) return on_host(dtype, count);
  if (count == 0) return Buffer(View(nullptr, 0, dtype, device), nullptr);
  auto cuda = detail::cuda::runtime();
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  void* memory = cuda->allocate(device.index(), bytes);
  return Buffer(View(memory, count, dtype, device),
                [cuda, device](void* address) { cuda->release(device.index(), address); });
}

Buffer Buffer::on_host(DataType dtype, std::int64_t count) {
  if (count < 0) throw Error(ErrorKind::usage, text("a buffer of ", count, " elements"), "counts are >= 0");
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  const std::size_t rounded = detail::round_up(bytes, alignment);
  if (rounded == 0) return Buffer(View(nullptr, 0, dtype), nullptr);
  const std::size_t unit = rounded < detail::huge_page ? alignment : detail::huge_page;
  void* memory = std::aligned_alloc(unit, detail::round_up(rounded, unit));
  if (memory == nullptr) throw system_error(text("cannot allocate ", bytes, " bytes of host memory"));
  // Fewer addresses to translate on a walk through all of it. A wish: failing, it costs speed only.
  if (rounded >= detail::huge_page) madvise(memory, rounded, MADV_HUGEPAGE);
  std::memset(memory, 0, rounded);
  return Buffer(View(memory, count, dtype), [](void* address) { std::free(address); });
}

}  // namespace weft
