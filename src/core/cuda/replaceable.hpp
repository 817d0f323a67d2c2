#pragma once
// The object through which weft uses CUDA, which a test may replace by a fake: the Runtime of this floor, and
// the kernels of other floors. There is one of each for the process, as there is one driver.
//
//   Replaceable<Kernels>& one() {
//     static Replaceable<Kernels> kernels(make_default);
//     return kernels;
//   }
//
// In a build without CUDA, make_default() calls refuse_without_cuda().

#include <memory>
#include <mutex>
#include <utility>

namespace weft::detail::cuda {

template <class Interface>
class Replaceable {
 public:
  using Make = std::shared_ptr<Interface> (*)();

  /// @param make_own makes CUDA's own at the first use, and may throw
  explicit Replaceable(Make make_own) : make_own_(make_own) {}

  /// The replacement, or else CUDA's own.
  std::shared_ptr<Interface> in_force() {
    const std::lock_guard lock(mutex_);
    if (!one_) one_ = make_own_();
    return one_;
  }
  /// Null: CUDA's own again.
  void replace(std::shared_ptr<Interface> other) {
    const std::lock_guard lock(mutex_);
    one_ = std::move(other);
  }

 private:
  Make make_own_;
  std::mutex mutex_;
  std::shared_ptr<Interface> one_;
};

/// @throws Error (usage) "`what` asked of a weft that was built without CUDA"
[[noreturn]] void refuse_without_cuda(const char* what);

}  // namespace weft::detail::cuda
