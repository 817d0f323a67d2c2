#include "collectives/nccl/issuer.hpp"
#include "weft/core/log.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail::nccl {
namespace {

/// Memory of NCCL's allocator while it is registered.
class Registered {
 public:
  Registered(const std::shared_ptr<Issuer>& issuer, std::shared_ptr<cuda::Runtime> runtime, Device device,
             std::size_t bytes)
      : api_(issuer->api()), issuer_(issuer), runtime_(std::move(runtime)), device_(device) {
    const cuda::Current current(*runtime_, device_.index());
    if (const Result result = api_->MemAlloc(&memory_, bytes); result != success) {
      throw Error(
          ErrorKind::system,
          text("NCCL cannot allocate ", bytes, " bytes on ", device_, ": ", api_->GetLastError(nullptr)),
          "free memory of the device, or use smaller buffers", {issuer->rank(), "allocate", 0});
    }
    try {
      enroll(*issuer, bytes);
    } catch (...) {
      api_->MemFree(memory_);
      throw;
    }
  }

  // By the last user of the memory, whatever has become of the communicator by then; it is not collective.
  ~Registered() {
    try {
      const cuda::Current current(*runtime_, device_.index());
      const auto issuer = issuer_.lock();
      if (issuer && !issuer->broken() && is_registered()) {
        issuer->call("deregister", [&](const Api& api, Comm* comm) {
          return windows() ? api.CommWindowDeregister(comm, names_->window)
                           : api.CommDeregister(comm, names_->handle);
        });
      }
      runtime_->drain(
          device_.index());  // ncclMemFree unmaps it at once (2.28.9, alloc.h:243), also under a kernel
      api_->MemFree(memory_);
    } catch (const std::exception&
                 error) {  // a lost device, perhaps, of which the exception tells that is under way
      if (std::uncaught_exceptions() == 0) log::warn(text("giving back device memory: ", error.what()));
    }
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  void* memory() const { return memory_; }

 private:
  bool windows() const { return api_->CommWindowRegister != nullptr; }
  /// NCCL gives no window where no peer can be reached through one.
  bool is_registered() const { return windows() ? names_->window != nullptr : names_->handle != nullptr; }
  void enroll(Issuer& issuer, std::size_t bytes) {
    issuer.call_apart("register", [memory = memory_, bytes, names = names_](const Api& api, Comm* comm) {
      return api.CommWindowRegister != nullptr
                 ? api.CommWindowRegister(comm, memory, bytes, &names->window, window_symmetric)
                 : api.CommRegister(comm, memory, bytes, &names->handle);
    });
  }

  /// What NCCL calls it; written by a call that may be left behind.
  struct Names {
    Window* window = nullptr;
    void* handle = nullptr;
  };

  std::shared_ptr<const Api> api_;
  std::weak_ptr<Issuer> issuer_;
  std::shared_ptr<cuda::Runtime> runtime_;
  Device device_;
  void* memory_ = nullptr;
  std::shared_ptr<Names> names_ = std::make_shared<Names>();
};

}  // namespace

Buffer allocate(const std::shared_ptr<Issuer>& issuer, const std::shared_ptr<cuda::Runtime>& runtime,
                Device device, DataType dtype, std::int64_t count) {
  if (issuer->api()->MemAlloc == nullptr || count <= 0) return Buffer::on(device, dtype, count);
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  auto registered = std::make_shared<Registered>(issuer, runtime, device, bytes);
  void* memory = registered->memory();
  weft::Stream stream(device);
  stream.run([&] {
    const cuda::Current current(*runtime, device.index());
    runtime->fill_zero(memory, bytes, cuda::timeline_of(stream).native());
  });
  stream.synchronize();
  return Buffer(View(memory, count, dtype, device), [registered](void*) mutable { registered.reset(); });
}

}  // namespace weft::detail::nccl
