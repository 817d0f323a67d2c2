#pragma once
// What stands for a device's side of weft: CUDA's own where weft was built with it, or another that a test
// puts in its place. One for the process, as a driver is.

#include <memory>
#include <mutex>

namespace weft::detail::cuda {

template <class Interface>
class Replaceable {
 public:
  using Make = std::shared_ptr<Interface> (*)();

  /// @param make_own makes CUDA's own at the first use, and may throw
  explicit Replaceable(Make make_own) : make_own_(make_own) {}

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

}  // namespace weft::detail::cuda
