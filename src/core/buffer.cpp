#include "weft/core/buffer.hpp"

#include <cstdlib>
#include <cstring>

namespace weft {

Buffer Buffer::on_host(DataType dtype, std::int64_t count) {
  if (count < 0) throw Error(ErrorKind::usage, text("a buffer of ", count, " elements"), "counts are >= 0");
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded == 0) return Buffer(View(nullptr, 0, dtype), nullptr);
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw system_error(text("cannot allocate ", bytes, " bytes of host memory"));
  std::memset(memory, 0, rounded);
  return Buffer(View(memory, count, dtype), [](void* address) { std::free(address); });
}

}  // namespace weft
