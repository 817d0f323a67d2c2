#pragma once
// The backend of ranks that share memory: `self`, `threads` and `host` within a node differ only in the
// ground they meet on and in how a sub-group makes its own.

#include "collectives/algorithms/shared_ground.hpp"
#include "collectives/backend.hpp"

namespace weft::detail {

class SharedBackend : public Backend {
 public:
  explicit SharedBackend(std::shared_ptr<SharedGround> ground) : ground_(std::move(ground)) {}

  std::unique_ptr<Task> start(const Operation& operation) override {
    return make_shared_collective(ground_, operation);
  }
  std::unique_ptr<Task> start(std::vector<Transfer> transfers) override {
    return make_shared_transfers(ground_, std::move(transfers));
  }
  Buffer allocate(DataType dtype, std::int64_t count) override { return ground_->allocate(dtype, count); }
  void give_up(const std::string& reason) noexcept override { ground_->give_up(reason); }

 protected:
  const std::shared_ptr<SharedGround>& ground() const { return ground_; }

 private:
  std::shared_ptr<SharedGround> ground_;
};

}  // namespace weft::detail
