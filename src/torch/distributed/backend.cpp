#include "torch/distributed/backend.hpp"

#include <ATen/ATen.h>

#include "torch/distributed/device/device_work.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/progress.hpp"
#include "torch/distributed/store.hpp"

namespace weft::distributed {
namespace {

/// What endCoalescing() gives: over when all are.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<TorchWorkPtr> works)
      : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}
  bool isCompleted() override {
    for (const auto& work : works_) {
      if (!work->isCompleted()) return false;
    }
    return true;
  }
  bool isSuccess() const override { return exception() == nullptr; }
  std::exception_ptr exception() const override {
    for (const auto& work : works_) {
      if (const auto error = work->exception()) return error;
    }
    return nullptr;
  }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& work : works_) work->wait(timeout);
    return true;
  }
  void synchronize() override {
    for (const auto& work : works_) work->synchronize();
  }
  void blockCurrentStream() { synchronize(); }  // of torch's Work since 2.10
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> all;
    for (const auto& work : works_) {
      for (at::Tensor& tensor : work->result()) all.push_back(std::move(tensor));
    }
    return all;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (const auto& work : works_) futures.push_back(work->getFuture());
    return c10::collectAll(futures);
  }

 private:
  std::vector<TorchWorkPtr> works_;
};

/// Where a call's tensors are.
c10::Device device_of_tensors(const Call& call, c10::Device otherwise) {
  if (!call.inputs.empty()) return call.inputs.front().device();
  for (const auto& tensors : call.outputs) {
    if (!tensors.empty()) return tensors.front().device();
  }
  return otherwise;
}

}  // namespace

c10::intrusive_ptr<TorchBackend> TorchBackend::connect(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                       int size, std::chrono::milliseconds timeout,
                                                       GroupName name) {
  auto keys = std::make_shared<TorchStore>(store);
  auto group = Group::connect({keys, "weft", rank, size, Device::host()}, std::move(name), timeout);
  return c10::make_intrusive<TorchBackend>(std::move(group), std::move(keys));
}

TorchBackend::TorchBackend(std::shared_ptr<Group> group, std::shared_ptr<TorchStore> store)
    : c10d::Backend(group->rank(), group->size()),
      group_(std::move(group)),
      store_(std::move(store)),
      on_devices_(group_, store_) {
  init();
}

TorchBackend::~TorchBackend() {
  without_python([this] { shutdown(); });
}

c10::intrusive_ptr<c10d::Backend::Options> TorchBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(getBackendName(), group_->timeout());
}

std::uint64_t TorchBackend::getSequenceNumberForGroup() {
  std::uint64_t sum = group_->sequence();
  for (const auto& group : on_devices_.all()) sum += group->sequence();
  return sum;
}

void TorchBackend::setTimeout(std::chrono::milliseconds timeout) {
  group_->timeout(timeout);
  for (const auto& group : on_devices_.all()) group->timeout(timeout);
}

void TorchBackend::abort() {
  group_->abort();
  for (const auto& group : on_devices_.all()) group->abort();
}

// As long as a rank may take to pick up what was sent to it; not as long as one waits for a rank that never comes.
void TorchBackend::shutdown() {
  constexpr std::chrono::milliseconds last_messages = std::chrono::seconds(10);
  const auto at_most = std::min(last_messages, group_->timeout());
  group_->close(at_most);
  for (const auto& group : on_devices_.all()) group->close(at_most);
}

void TorchBackend::eagerConnectSingleDevice(at::Device device) {
  const auto known = device_of(device);
  if (!known)
    refuse("eager_connect", text("tensors of ", device.str(), ": ", lanes_of_this_build()),
           "build weft with CUDA, or leave out device_id");
  if (known->is_host()) return;
  on_devices_.on(*known);
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

TorchWorkPtr TorchBackend::make(Call call, c10::Device device) {
  const auto place = device_of(device_of_tensors(call, device));
  if (!place || place->is_host()) return c10::make_intrusive<TorchWork>(group_, std::move(call));
  const bool is_alone = call.peer >= 0 && !is_eager_ && !is_coalescing();
  auto group = is_alone ? on_devices_.with_peer(*place, call.peer) : on_devices_.on(*place);
  return c10::make_intrusive<DeviceWork>(std::move(group), std::move(call));
}

bool TorchBackend::is_coalescing() {
  const std::lock_guard lock(coalesced_mutex_);
  return coalesced_.has_value();
}

// What is coalesced on a device starts at the end, together.
TorchBackend::Result TorchBackend::start(TorchWorkPtr work) {
  const bool is_on_device = work->group().lane() != nullptr;
  if (!is_on_device || !is_coalescing()) {
    if (is_on_device) {
      work->group().start_together({c10::static_intrusive_pointer_cast<DeviceWork>(work)});
    } else {
      work->group().start(work);
    }
  }
  const std::lock_guard lock(coalesced_mutex_);
  if (coalesced_) coalesced_->push_back(work);
  return work;
}

int TorchBackend::checked_peer(const char* operation, std::int64_t peer) const {
  if (peer < 0 || peer >= getSize())
    refuse(operation, text("rank ", peer, " of a group of ", getSize()),
           text("ranks are 0 to ", getSize() - 1));
  return static_cast<int>(peer);
}

void TorchBackend::startCoalescing() {
  const std::lock_guard lock(coalesced_mutex_);
  coalesced_.emplace();
}

TorchBackend::Result TorchBackend::endCoalescing() {
  std::vector<TorchWorkPtr> works;
  {
    const std::lock_guard lock(coalesced_mutex_);
    if (!coalesced_) refuse("end_coalescing", "nothing was begun", "call start_coalescing first");
    works = std::move(*coalesced_);
    coalesced_.reset();
  }
  std::vector<c10::intrusive_ptr<DeviceWork>> of_device;
  for (const TorchWorkPtr& work : works) {
    if (work->group().lane() == nullptr) continue;
    if (!of_device.empty() && &work->group() != &of_device.front()->group())
      refuse("end_coalescing",
             text("tensors on ", of_device.front()->group().lane()->device().str(), " and on ",
                  work->group().lane()->device().str()),
             "coalesce calls of one device");
    of_device.push_back(c10::static_intrusive_pointer_cast<DeviceWork>(work));
  }
  if (!of_device.empty()) of_device.front()->group().start_together(of_device);
  return c10::make_intrusive<CoalescedWork>(getRank(), std::move(works));
}

}  // namespace weft::distributed
