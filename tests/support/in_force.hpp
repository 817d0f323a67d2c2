#pragma once
// A fake in the place of the object through which weft uses a device, for a scope.

#include <memory>

namespace weft::test {

/// @tparam replace puts it in force; null restores weft's own
template <class Fake, auto replace>
class InForce {
 public:
  InForce() { replace(fake_); }
  ~InForce() { replace(nullptr); }
  InForce(const InForce&) = delete;
  InForce& operator=(const InForce&) = delete;

  Fake* operator->() const { return fake_.get(); }

 private:
  std::shared_ptr<Fake> fake_ = std::make_shared<Fake>();
};

}  // namespace weft::test
