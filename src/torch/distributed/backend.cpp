#include "torch/distributed/backend.hpp"

#include <ATen/ATen.h>

#include "torch/distributed/errors.hpp"
#include "torch/distributed/progress.hpp"
#include "torch/distributed/store.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/collectives/world.hpp"

namespace weft::distributed {
namespace {

/// What endCoalescing() gives: over when all are.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<TorchBackend::Result> works)
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
  std::vector<TorchBackend::Result> works_;
};

}  // namespace

c10::intrusive_ptr<TorchBackend> TorchBackend::connect(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                       int size, std::chrono::milliseconds timeout,
                                                       GroupName name) {
  auto keys = std::make_shared<TorchStore>(store);
  auto progress = Progress::of_process();
  try {
    const World world =
        World::over(make_store_rendezvous(keys, "weft", rank, size),
                    {.connect_timeout = timeout, .timeout = timeout, .device = Device::host()},
                    Environment::of_process());
    auto group = std::make_shared<Group>(weft::connect(world), std::move(name), timeout, std::move(progress));
    return c10::make_intrusive<TorchBackend>(std::move(group), std::move(keys));
  } catch (...) {
    std::rethrow_exception(as_torch_error(std::current_exception(), " (of group " + name.name + ")"));
  }
}

TorchBackend::TorchBackend(std::shared_ptr<Group> group, std::shared_ptr<TorchStore> store)
    : c10d::Backend(group->rank(), group->size()), group_(std::move(group)), store_(std::move(store)) {
  init();
}

TorchBackend::~TorchBackend() {
  without_python([this] { shutdown(); });
}

c10::intrusive_ptr<c10d::Backend::Options> TorchBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(getBackendName(), group_->timeout());
}

void TorchBackend::setTimeout(std::chrono::milliseconds timeout) {
  group_->timeout(timeout);
}

void TorchBackend::abort() {
  group_->abort();
}

// As long as a rank may take to pick up what was sent to it; not as long as one waits for a rank that never comes.
void TorchBackend::shutdown() {
  constexpr std::chrono::milliseconds last_messages = std::chrono::seconds(10);
  group_->close(std::min(last_messages, group_->timeout()));
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

TorchBackend::Result TorchBackend::start(TorchWorkPtr work) {
  group_->start(work);
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
  std::vector<Result> works;
  {
    const std::lock_guard lock(coalesced_mutex_);
    if (!coalesced_) refuse("end_coalescing", "nothing was begun", "call start_coalescing first");
    works = std::move(*coalesced_);
    coalesced_.reset();
  }
  return c10::make_intrusive<CoalescedWork>(getRank(), std::move(works));
}

}  // namespace weft::distributed
