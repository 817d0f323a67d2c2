#include "weft/core/copy.hpp"

#include <cstring>

#include "core/cuda/runtime.hpp"
#include "weft/core/error.hpp"
#include "weft/interop/cuda.hpp"

namespace weft {

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
    stream.run([=, native = native_handle(stream), cuda = detail::cuda::runtime()] {
      cuda->copy(to.data(), from.data(), from.size_bytes(), native);
    });
  }
}

}  // namespace weft
