#include "torch/libtorch/gradient_memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "torch/libtorch/gradient_hooks.hpp"

namespace weft::torch::detail {

/// What a thread's GradientMemory serves.
struct GradientMemory::Pool {
  Communicator comm;
  std::vector<std::size_t> sizes;  // in bytes
  bool is_all_reached;             // ranks are threads
  pid_t pid = getpid();
};

namespace {

thread_local std::vector<std::weak_ptr<GradientMemory::Pool>> pools;

/// The pool of this thread for a tensor of so many bytes that is allocated now; null: none.
std::shared_ptr<GradientMemory::Pool> pool_for(std::size_t bytes) {
  if (pools.empty() || bytes < GradientMemory::large || c10::GradMode::is_enabled()) return nullptr;
  for (const auto& one : pools) {
    const auto pool = one.lock();
    if (pool && pool->pid == getpid() && std::ranges::count(pool->sizes, bytes) > 0) return pool;
  }
  return nullptr;
}

void release(void* context) {
  const std::unique_ptr<Buffer> memory(static_cast<Buffer*>(context));
  c10::profiledCPUMemoryReporter().Delete(memory->view().data());
}

/// The part of the allocator that does not depend on torch's version.
c10::DataPtr allocate(c10::Allocator& before, std::size_t bytes) {
  const auto pool = pool_for(bytes);
  if (!pool) return before.allocate(bytes);
  return with_torch_errors([&] {
    auto memory = std::make_unique<Buffer>(
        pool->comm.allocate(DataType::u8, static_cast<std::int64_t>(bytes), Contents::any));
    void* const data = memory->view().data();
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return c10::DataPtr(data, memory.release(), &release, c10::Device(c10::DeviceType::CPU));
  });
}

/// Torch 2 allocates with a function that is not const, and its Allocator has one more that is pure.
/// @tparam Base c10::Allocator
template <class Base>
class Served : public Base {
 public:
  explicit Served(Base& before) : before_(before) {}
  /// That of the other allocator. Memory of a pool has a context, which torch's raw functions refuse.
  c10::DeleterFnPtr raw_deleter() const override { return before_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

 protected:
  Base& before_;
};

template <class Base, class = void>
class ServedAllocator final : public Served<Base> {
 public:
  using Served<Base>::Served;
  c10::DataPtr allocate(std::size_t bytes) override { return detail::allocate(this->before_, bytes); }
};

using ConstAllocate = c10::DataPtr (c10::Allocator::*)(std::size_t) const;

template <class Base>
class ServedAllocator<Base, std::enable_if_t<std::is_same_v<decltype(&Base::allocate), ConstAllocate>>> final
    : public Served<Base> {
 public:
  using Served<Base>::Served;
  c10::DataPtr allocate(std::size_t bytes) const override { return detail::allocate(this->before_, bytes); }
};

/// Puts the allocator before the one that there is, with that one's priority: what could replace that one can replace
/// weft's. Then weft's is asked no more, and gradients are copied.
void serve_this_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto* const served =
        new ServedAllocator<c10::Allocator>(*c10::GetCPUAllocator());     // tensors keep its address
    for (int priority = 0; c10::GetCPUAllocator() != served; ++priority)  // ends: 255 replaces any
      c10::SetCPUAllocator(served, static_cast<std::uint8_t>(priority));
  });
}

}  // namespace

GradientMemory::GradientMemory(const Communicator& comm, const ParamLayout& layout)
    : pool_(std::make_shared<Pool>(Pool{comm, {}, comm.backend() == "threads" || comm.backend() == "self"})) {
  for (int i = 0; i < layout.parameters(); ++i) {
    const std::size_t bytes = static_cast<std::size_t>(layout.count(ParamId{i})) * size_of(layout.dtype());
    const bool known = std::ranges::count(pool_->sizes, bytes) > 0;
    if (bytes >= large && bytes % Buffer::alignment == 0 && !known) pool_->sizes.push_back(bytes);
  }
  if (pool_->is_all_reached || pool_->sizes.empty()) return;
  serve_this_process();
  std::erase_if(pools, [](const auto& one) { return one.expired(); });
  pools.push_back(pool_);
}

bool GradientMemory::holds(const at::Tensor& tensor) const {
  if (std::ranges::count(pool_->sizes, tensor.nbytes()) == 0) return false;
  const c10::DataPtr& memory = tensor.storage().data_ptr();
  const bool is_whole = memory.get() == tensor.data_ptr() && tensor.storage().nbytes() == tensor.nbytes();
  return is_whole && (pool_->is_all_reached || memory.get_deleter() == &release);
}

}  // namespace weft::torch::detail
