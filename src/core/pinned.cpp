#include "core/pinned.hpp"

#include <sys/resource.h>

#include "core/cuda/runtime.hpp"
#include "core/memory_left.hpp"

namespace weft::detail {
namespace {

constexpr const char* keep_less =
    "keep less on the host: a smaller share of offloaded state, fewer ranks on a node, or a larger limit of "
    "the container's memory";

// Memory that is not there is noticed when it is touched, by a signal that names nobody.
void check_memory_left(std::size_t bytes) {
  const auto left = memory_left();
  if (!left || bytes <= *left) return;
  throw Error(ErrorKind::system,
              text(bytes, " bytes of host memory are asked for, and this rank has ", *left,
                   " left of the machine's memory or its container's"),
              keep_less);
}

std::string lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "`ulimit -l` is not known";
  if (limit.rlim_cur == RLIM_INFINITY) return "`ulimit -l` is unlimited";
  return text("`ulimit -l` allows ", limit.rlim_cur, " bytes");
}

}  // namespace

View on_device(Buffer& pinned, Device device) {
  const View view = pinned.view();
  return {view.data(), view.count(), view.dtype(), device};
}

Buffer pinned(Device device, DataType dtype, std::int64_t count) {
  if (count <= 0) return Buffer::on_host(dtype, count);
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  check_memory_left(bytes);
  if (device.is_host()) return Buffer::on_host(dtype, count);
  auto cuda = cuda::runtime();
  void* memory = nullptr;
  try {
    memory = cuda->allocate_on_host(device.index(), bytes);
  } catch (const Error& error) {
    throw Error(
        ErrorKind::system,
        text("cannot pin ", bytes, " bytes of host memory for ", device, ", ", lock_limit(), ": ",
             error.what()),
        text("raise `ulimit -l` (a container's --ulimit memlock=-1) where it is limited; else ", keep_less));
  }
  return Buffer(View(memory, count, dtype),
                [cuda, device](void* address) { cuda->release_on_host(device.index(), address); });
}

}  // namespace weft::detail
