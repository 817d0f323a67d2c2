#include <optional>

#include "collectives/nccl/issuer.hpp"
#include "core/memory/per_process.hpp"
#include "weft/core/log.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail::nccl {
namespace {

/// Makes memory known to NCCL until it goes.
class Registration {
 public:
  enum class How {
    window,  ///< at the same place of every rank's memory; waits for all ranks
    handle,  ///< this rank's alone
  };

  Registration(std::shared_ptr<Issuer> issuer, How how, void* memory, std::size_t bytes)
      : api_(issuer->api()), issuer_(issuer), how_(how) {
    if (how == How::window) {
      issuer->call_apart("register", [memory, bytes, names = names_](const Api& api, Comm* comm) {
        return api.CommWindowRegister(comm, memory, bytes, &names->window, window_symmetric);
      });
    } else {
      issuer->call("register", [&](const Api& api, Comm* comm) {
        return api.CommRegister(comm, memory, bytes, &names_->handle);
      });
    }
  }
  // By the last user of the memory, whatever has become of the communicator by then; it is not collective.
  ~Registration() {
    if (!origin_.is_here()) return;  // a child has neither NCCL nor the device
    try {
      const auto issuer = issuer_.lock();
      if (!issuer || issuer->broken() || !is_registered()) return;
      issuer->call("deregister", [&](const Api& api, Comm* comm) {
        return how_ == How::window ? api.CommWindowDeregister(comm, names_->window)
                                   : api.CommDeregister(comm, names_->handle);
      });
    } catch (const std::exception& error) {
      // A lost device, perhaps, of which the exception tells that is under way.
      if (std::uncaught_exceptions() == 0)
        log::warn(text("giving back registered memory: ", message_of(error)));
    }
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  /// NCCL gives no window where no peer can be reached through one, and no handle where NCCL_LOCAL_REGISTER=0.
  bool is_registered() const { return names_->window != nullptr || names_->handle != nullptr; }

  /// What NCCL calls it; written by a call that may be left behind.
  struct Names {
    Window* window = nullptr;
    void* handle = nullptr;
  };

  const Origin origin_;
  std::shared_ptr<const Api> api_;
  std::weak_ptr<Issuer> issuer_;
  How how_;
  std::shared_ptr<Names> names_ = std::make_shared<Names>();
};

/// Memory of NCCL's allocator, registered.
class Allocation {
 public:
  Allocation(const std::shared_ptr<Issuer>& issuer, std::shared_ptr<cuda::Runtime> runtime, Device device,
             std::size_t bytes)
      : api_(issuer->api()), runtime_(std::move(runtime)), device_(device) {
    const cuda::Current current(*runtime_, device_.index());
    if (const Result result = api_->MemAlloc(&memory_, bytes); result != success) {
      throw Error(
          ErrorKind::system,
          text("NCCL cannot allocate ", bytes, " bytes on ", device_, ": ", api_->GetLastError(nullptr)),
          "free memory of the device, or use smaller buffers", {issuer->rank(), "allocate", 0});
    }
    using How = Registration::How;
    try {
      registration_.emplace(issuer, api_->CommWindowRegister != nullptr ? How::window : How::handle, memory_,
                            bytes);
    } catch (...) {
      api_->MemFree(memory_);
      throw;
    }
  }
  // ncclMemFree unmaps it at once (2.28.9, alloc.h:243), also under a kernel.
  ~Allocation() {
    if (!origin_.is_here()) return;
    try {
      const cuda::Current current(*runtime_, device_.index());
      registration_.reset();
      runtime_->drain(device_.index());
      api_->MemFree(memory_);
    } catch (const std::exception& error) {
      if (std::uncaught_exceptions() == 0) log::warn(text("giving back device memory: ", message_of(error)));
    }
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  void* memory() const { return memory_; }

 private:
  const Origin origin_;
  std::shared_ptr<const Api> api_;
  std::shared_ptr<cuda::Runtime> runtime_;
  Device device_;
  void* memory_ = nullptr;
  std::optional<Registration> registration_;
};

}  // namespace

Buffer allocate(const std::shared_ptr<Issuer>& issuer, const std::shared_ptr<cuda::Runtime>& runtime,
                Device device, DataType dtype, std::int64_t count) {
  if (issuer->api()->MemAlloc == nullptr || count <= 0) return Buffer::on(device, dtype, count);
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  auto allocation = std::make_shared<Allocation>(issuer, runtime, device, bytes);
  void* memory = allocation->memory();
  weft::Stream stream(device);
  stream.run([&] {
    const cuda::Current current(*runtime, device.index());
    runtime->fill_zero(memory, bytes, cuda::timeline_of(stream).native());
  });
  stream.synchronize();
  return Buffer(View(memory, count, dtype, device), [allocation](void*) mutable { allocation.reset(); });
}

std::shared_ptr<const void> register_memory(const std::shared_ptr<Issuer>& issuer, View memory) {
  if (issuer->api()->CommRegister == nullptr) return nullptr;
  return std::make_shared<const Registration>(issuer, Registration::How::handle, memory.data(),
                                              memory.size_bytes());
}

}  // namespace weft::detail::nccl
