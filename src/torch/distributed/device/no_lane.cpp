// Where torch or weft is built without CUDA: host tensors alone.

#include "torch/distributed/device/lane.hpp"
#include "weft/core/error.hpp"

namespace weft::distributed {

std::unique_ptr<Lane> make_lane(Device device) {
  throw Error(ErrorKind::internal, text("a lane on ", device, " in a build without CUDA"));
}

std::optional<Device> device_of(c10::Device device) {
  if (device.is_cpu()) return Device::host();
  return std::nullopt;
}

const char* lanes_of_this_build() {
  return "refused: torch or weft was built without CUDA";
}

}  // namespace weft::distributed
