#include "weft/core/buffer.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/base/round_up.hpp"
#include "core/cuda/runtime.hpp"
#include "core/memory/host_memory.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"

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

Buffer Buffer::on_host(DataType dtype, std::int64_t count, Contents contents) {
  if (count < 0) throw Error(ErrorKind::usage, text("a buffer of ", count, " elements"), "counts are >= 0");
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  const std::size_t rounded = detail::round_up(bytes, alignment);
  if (rounded == 0) return Buffer(View(nullptr, 0, dtype), nullptr);
  const std::size_t unit = rounded < detail::huge_page ? alignment : detail::huge_page;
  void* memory = std::aligned_alloc(unit, detail::round_up(rounded, unit));
  if (memory == nullptr) throw system_error(text("cannot allocate ", bytes, " bytes of host memory"));
  // Huge pages need fewer address translations. This is a hint: a failure costs only speed.
  if (rounded >= detail::huge_page) madvise(memory, rounded, MADV_HUGEPAGE);
  if (contents == Contents::zeroed) std::memset(memory, 0, rounded);
  return Buffer(View(memory, count, dtype), [](void* address) { std::free(address); });
}

void copy(View to, ConstView from, Stream stream) {
  if (to.count() != from.count() || to.dtype() != from.dtype()) {
    throw Error(ErrorKind::usage,
                text("copy of ", from.count(), " ", from.dtype(), " to ", to.count(), " ", to.dtype()));
  }
  const bool both_on_host = to.device().is_host() && from.device().is_host();
  if (stream.device().is_host() != both_on_host) {
    throw Error(ErrorKind::usage,
                text("copy from ", from.device(), " to ", to.device(), " on a stream of ", stream.device()),
                both_on_host ? "use a host stream" : "use a stream of the CUDA device");
  }
  if (to.empty()) return;
  if (both_on_host) {
    stream.run([=] { std::memcpy(to.data(), from.data(), from.size_bytes()); });
  } else {
    stream.run([=, native = native_handle(stream), device = stream.device(), cuda = detail::cuda::runtime()] {
      const detail::cuda::Current current(*cuda, device.index());
      cuda->copy(to.data(), from.data(), from.size_bytes(), native);
    });
  }
}

}  // namespace weft
