#include "torch/distributed/backend.hpp"

#include <ATen/ATen.h>

#include "torch/distributed/device/device_groups.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/progress.hpp"
#include "torch/distributed/signals.hpp"
#include "torch/distributed/store.hpp"

namespace weft::distributed {

c10::intrusive_ptr<TorchBackend> TorchBackend::connect(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                       int size, std::chrono::milliseconds timeout,
                                                       GroupName name) {
  const RunsSignalHandlers signals;
  std::shared_ptr<TorchStore> keys;
  try {
    keys = std::make_shared<TorchStore>(store, rank, size, Deadline::in(timeout));
  } catch (...) {
    std::rethrow_exception(as_torch_error(std::current_exception(), " (of group " + name.name + ")"));
  }
  auto group = Group::connect({keys, "weft", rank, size, Device::host()}, std::move(name), timeout);
  return c10::make_intrusive<TorchBackend>(std::move(group), std::move(keys));
}

TorchBackend::TorchBackend(std::shared_ptr<Group> group, std::shared_ptr<TorchStore> store)
    : c10d::Backend(group->rank(), group->size()),
      group_(std::move(group)),
      store_(std::move(store)),
      on_devices_(std::make_unique<DeviceGroups>(group_, store_)) {
  init();
}

TorchBackend::~TorchBackend() {
  without_python([this] { close({}); });
}

c10::intrusive_ptr<c10d::Backend::Options> TorchBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(getBackendName(), group_->timeout());
}

std::uint64_t TorchBackend::getSequenceNumberForGroup() {
  std::uint64_t sum = group_->sequence();
  for (const auto& group : on_devices_->all()) sum += group->sequence();
  return sum;
}

void TorchBackend::setTimeout(std::chrono::milliseconds timeout) {
  group_->timeout(timeout);
  for (const auto& group : on_devices_->all()) group->timeout(timeout);
}

void TorchBackend::abort() {
  group_->abort();
  for (const auto& group : on_devices_->all()) group->abort();
}

void TorchBackend::shutdown() {
  const RunsSignalHandlers signals;
  close(exception_in_flight());
}

// As long as a rank may take to pick up what was sent to it; not as long as one waits for a rank that never comes.
void TorchBackend::close(const std::string& exception) {
  constexpr std::chrono::milliseconds last_messages = std::chrono::seconds(10);
  const auto at_most = std::min(last_messages, group_->timeout());
  group_->close(at_most, exception);
  for (const auto& group : on_devices_->all()) group->close(at_most, exception);
}

void TorchBackend::eagerConnectSingleDevice(at::Device device) {
  const auto known = device_of(device);
  if (!known)
    refuse("eager_connect", text("tensors of ", device.str(), ": ", lanes_of_this_build()),
           "build weft with CUDA, or leave out device_id");
  if (known->is_host()) return;
  on_devices_->on(*known);
  is_eager_ = true;
}

at::Tensor TorchBackend::allocateTensor(long size, at::TensorOptions options) {
  const auto type = c10::typeMetaToScalarType(options.dtype());
  if (options.device().type() != at::kCPU)
    refuse("allocate_tensor", text("memory on ", options.device().str()), "weft gives memory of the host");
  if (size < 0) refuse("allocate_tensor", text(size, " elements"), "give a number that is not negative");
  const auto bytes = static_cast<std::int64_t>(size) * static_cast<std::int64_t>(c10::elementSize(type));
  try {
    auto memory = std::make_shared<Buffer>(group_->allocate(bytes));
    return at::from_blob(
        memory->view().data(), {size}, [memory](void*) {}, at::TensorOptions().dtype(type));
  } catch (...) {
    std::rethrow_exception(group_->as_torch_error(std::current_exception()));
  }
}

int TorchBackend::checked_peer(const char* operation, std::int64_t peer) const {
  if (peer < 0 || peer >= getSize())
    refuse(operation, text("rank ", peer, " of a group of ", getSize()),
           text("ranks are 0 to ", getSize() - 1));
  return static_cast<int>(peer);
}

}  // namespace weft::distributed
