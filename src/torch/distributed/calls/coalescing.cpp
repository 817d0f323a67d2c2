// How a call starts: in the group of its tensors' device, at once, or at the end of a group of coalesced calls.
//
// On the host, coalesced calls start at once all the same, for they progress together. On a device they are handed over at the end: messages
// both ways would else wait for each other there.

#include "torch/distributed/backend.hpp"
#include "torch/distributed/device/device_groups.hpp"
#include "torch/distributed/device/device_work.hpp"
#include "torch/distributed/errors.hpp"

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
  void blockCurrentStream() { synchronize(); }  // torch's own from some version on
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

TorchWorkPtr TorchBackend::make(Call call, c10::Device device) {
  const auto place = device_of(device_of_tensors(call, device));
  if (!place || place->is_host()) return c10::make_intrusive<TorchWork>(group_, std::move(call));
  const bool is_alone = call.peer >= 0 && !is_eager_ && !is_coalescing();
  auto group = is_alone ? on_devices_->with_peer(*place, call.peer) : on_devices_->on(*place);
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
