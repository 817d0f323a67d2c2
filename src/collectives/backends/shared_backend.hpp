#pragma once
// The backend of ranks that share memory: `self`, `threads` and `host` within a node differ only in the
// ground they meet on and in how a sub-group makes its own.

#include <memory>

#include "collectives/algorithms/shared_bulletin.hpp"
#include "collectives/algorithms/shared_ground.hpp"
#include "collectives/backend.hpp"

namespace weft::detail {

/// Is carried on by whoever waits for anything on this ground, once its turn on the stream has come.
class SharedTask final : public Task {
 public:
  SharedTask(std::shared_ptr<SharedGround> ground, std::unique_ptr<Engagement> work)
      : ground_(std::move(ground)), work_(std::move(work)) {}
  ~SharedTask() override {
    if (engaged_) ground_->dismiss(*work_);  // also when it is over: another thread may be just leaving it
  }

  bool advance() override {
    if (!engaged_) ground_->engage(*work_);
    engaged_ = true;
    if (!work_->over()) ground_->carry_on();
    if (!work_->over()) return false;
    work_->rethrow();
    return true;
  }
  void rest(std::chrono::microseconds at_most) override {
    if (engaged_ && !work_->over()) ground_->rest(*work_, at_most);
  }

 private:
  std::shared_ptr<SharedGround> ground_;
  std::unique_ptr<Engagement> work_;
  bool engaged_ = false;
};

class SharedBackend : public Backend {
 public:
  explicit SharedBackend(std::shared_ptr<SharedGround> ground) : ground_(std::move(ground)) {}

  std::unique_ptr<Task> start(const Operation& operation, const Stream&) override {
    return std::make_unique<SharedTask>(ground_, make_shared_collective(*ground_, operation));
  }
  std::unique_ptr<Task> begin(const Operation& operation, const Stream&) override {
    auto rest = begin_shared_collective(*ground_, operation);
    return rest ? std::make_unique<SharedTask>(ground_, std::move(rest)) : nullptr;
  }
  std::unique_ptr<Task> start(std::vector<Transfer> transfers, const Stream&) override {
    return std::make_unique<SharedTask>(ground_, make_shared_transfers(*ground_, std::move(transfers)));
  }
  Buffer allocate(DataType dtype, std::int64_t count) override { return ground_->allocate(dtype, count); }
  bool reaches(const ConstView& view) const override {
    return ground_->publish(view.data(), view.size_bytes()).reachable;
  }
  std::string explain(const Operation& operation) const override {
    return explain_shared(operation, ground_->size());
  }
  bool overlaps() const override { return true; }
  std::string late(std::uint64_t number) const override {
    return ground_->missing([&](int other) {
      return other == ground_->rank() ||
             ground_->line(other).operation.load(std::memory_order_relaxed) >= number;
    });
  }
  void show(std::uint64_t number) override {
    ground_->line(ground_->rank()).shown.store(number, std::memory_order_relaxed);
  }
  std::optional<std::uint64_t> shown(int rank) const override {
    return ground_->line(rank).shown.load(std::memory_order_relaxed);
  }
  Bulletin* bulletin() override { return &bulletin_; }
  void give_up(const std::string& reason) noexcept override { ground_->give_up(reason); }

 protected:
  const std::shared_ptr<SharedGround>& ground() const { return ground_; }

 private:
  std::shared_ptr<SharedGround> ground_;
  SharedBulletin bulletin_{*ground_};
};

}  // namespace weft::detail
