#pragma once
// The backend of ranks that share memory: `self`, `threads` and `host` within a node differ only in the
// ground they meet on and in how a sub-group makes its own.

#include <functional>

#include "collectives/algorithms/shared_bulletin.hpp"
#include "collectives/algorithms/shared_ground.hpp"
#include "collectives/backend.hpp"

namespace weft::detail {

/// Starts when its turn on the stream comes, and is then carried on by whoever waits for anything on this
/// ground.
class SharedTask final : public Task {
 public:
  using Start = std::function<std::unique_ptr<Engagement>()>;

  SharedTask(std::shared_ptr<SharedGround> ground, Start start)
      : ground_(std::move(ground)), start_(std::move(start)) {}
  ~SharedTask() override {
    if (work_) ground_->dismiss(*work_);  // also when it is over: another thread may be just leaving it
  }

  bool advance() override {
    if (!work_) {
      work_ = start_();
      ground_->engage(*work_);
    }
    if (!work_->over()) ground_->carry_on();
    if (!work_->over()) return false;
    work_->rethrow();
    return true;
  }

 private:
  std::shared_ptr<SharedGround> ground_;
  Start start_;
  std::unique_ptr<Engagement> work_;
};

class SharedBackend : public Backend {
 public:
  explicit SharedBackend(std::shared_ptr<SharedGround> ground) : ground_(std::move(ground)) {}

  std::unique_ptr<Task> start(const Operation& operation, const Stream&) override {
    return std::make_unique<SharedTask>(
        ground_, [ground = ground_.get(), operation] { return make_shared_collective(*ground, operation); });
  }
  std::unique_ptr<Task> start(std::vector<Transfer> transfers, const Stream&) override {
    return std::make_unique<SharedTask>(ground_, [ground = ground_.get(), transfers = std::move(transfers)] {
      return make_shared_transfers(*ground, transfers);
    });
  }
  Buffer allocate(DataType dtype, std::int64_t count) override { return ground_->allocate(dtype, count); }
  bool overlaps() const override { return true; }
  Bulletin* bulletin() override { return &bulletin_; }
  void give_up(const std::string& reason) noexcept override { ground_->give_up(reason); }

 protected:
  const std::shared_ptr<SharedGround>& ground() const { return ground_; }

 private:
  std::shared_ptr<SharedGround> ground_;
  SharedBulletin bulletin_{*ground_};
};

}  // namespace weft::detail
