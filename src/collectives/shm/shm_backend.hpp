#pragma once
// The backend of ranks that share memory: `self`, `threads` and `host` within a node differ only in the
// segment they share and in how a sub-group makes its own.

#include <memory>

#include "collectives/backend/backend.hpp"
#include "collectives/shm/pending_op.hpp"
#include "collectives/shm/shm_segment.hpp"

namespace weft::detail {

/// Once its stream has come to it, it progresses whenever a thread of this rank waits for anything on the
/// segment.
class ShmTask final : public Task {
 public:
  ShmTask(std::shared_ptr<ShmSegment> segment, std::unique_ptr<PendingOp> work)
      : segment_(std::move(segment)), work_(std::move(work)) {}
  ~ShmTask() override {
    // Also when it is over: another thread may be just leaving it.
    if (is_pending_) segment_->remove_pending(*work_);
    // An exception is unwinding, and frees next what the others read: first they hear that.
    if (!work_->over())
      segment_->give_up(Error(ErrorKind::peer_lost, "left an operation while an exception was unwinding"));
  }

  bool advance() override {
    if (!is_pending_) segment_->add_pending(*work_);
    is_pending_ = true;
    if (!work_->over()) segment_->progress();
    if (!work_->over()) return false;
    work_->rethrow();
    return true;
  }
  void rest(std::chrono::microseconds at_most) override {
    if (is_pending_ && !work_->over()) segment_->rest(*work_, at_most);
  }

 private:
  std::shared_ptr<ShmSegment> segment_;
  std::unique_ptr<PendingOp> work_;
  bool is_pending_ = false;
};

/// What each rank has issued for its device stands in its RankBlock.
class ShmPeerStatus final : public PeerStatus {
 public:
  explicit ShmPeerStatus(ShmSegment& segment) : segment_(segment) {}

  void issued(const Operation& operation) override;
  void compare(const Operation& operation) const override;
  std::string behind(std::uint64_t number) const override;
  std::optional<Error> lost(std::uint64_t number) const override;

 private:
  ShmSegment& segment_;
};

class ShmBackend : public Backend {
 public:
  explicit ShmBackend(std::shared_ptr<ShmSegment> segment) : segment_(std::move(segment)) {}

  std::unique_ptr<Task> start(const Operation& operation, const Stream&) override {
    return std::make_unique<ShmTask>(segment_, make_shm_collective(*segment_, operation));
  }
  std::unique_ptr<Task> begin(const Operation& operation, const Stream&) override {
    auto rest = begin_shm_collective(*segment_, operation);
    return rest ? std::make_unique<ShmTask>(segment_, std::move(rest)) : nullptr;
  }
  std::unique_ptr<Task> start(Transfers transfers, const Stream&) override {
    return std::make_unique<ShmTask>(segment_, make_shm_transfers(*segment_, std::move(transfers)));
  }
  Buffer allocate(DataType dtype, std::int64_t count, Contents contents) override {
    return segment_->allocate(dtype, count, contents);
  }
  bool reaches(const ConstView& view) const override {
    return segment_->publish(view.data(), view.size_bytes()).reachable;
  }
  std::string explain(const Operation& operation) const override {
    return explain_shm(operation, segment_->size());
  }
  bool overlaps() const override { return true; }
  MessageLimits message_limits() const override { return {std::numeric_limits<std::uint32_t>::max(), true}; }
  std::string late(std::uint64_t number) const override {
    return segment_->missing([&](int other) {
      return other == segment_->rank() ||
             segment_->block(other).operation.load(std::memory_order_relaxed) >= number;
    });
  }
  void come_to(std::uint64_t number) override {
    segment_->block(segment_->rank()).operation.store(number, std::memory_order_relaxed);
  }
  void show(std::uint64_t number) override {
    segment_->block(segment_->rank()).shown.store(number, std::memory_order_relaxed);
  }
  std::optional<std::uint64_t> shown(int rank) const override {
    return segment_->block(rank).shown.load(std::memory_order_relaxed);
  }
  PeerStatus* peer_status() override { return &peer_status_; }
  void give_up(const Error& error) noexcept override { segment_->give_up(error); }

 protected:
  const std::shared_ptr<ShmSegment>& segment() const { return segment_; }

 private:
  std::shared_ptr<ShmSegment> segment_;
  ShmPeerStatus peer_status_{*segment_};
};

}  // namespace weft::detail
