// The barrier phases of a collective in shared memory. In a phase a rank stores how far it is in its slot,
// and then reads the others' until all are as far. Small: one phase, after which the data is there. Direct: a
// phase, the exchange, a phase. Staged: two phases a chunk, so that staging space is read before it is filled
// again.

#include <algorithm>
#include <utility>

#include "collectives/shm/pending_op.hpp"
#include "collectives/shm/shm_exchange.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

class ShmCollective final : public PendingOp {
 public:
  ShmCollective(ShmSegment& segment, const Operation& operation)
      : segment_(segment),
        exchange_(segment, operation),
        poll_deadline_(segment.timeout_or(operation.timeout)),
        reached_(phase_of(operation.number, 0)) {}

  bool advance() override;
  void rested() override { poll_deadline_.rested(); }
  std::uint64_t reached() const { return reached_; }

 private:
  enum class Step : std::uint8_t { post, agree, exchange, finish };

  const Operation& operation() const { return exchange_.operation(); }
  OpSlot& op_slot(int rank) const { return segment_.op_slot(rank, operation().number); }
  void post();
  /// Tells the other ranks that this one has reached its next phase.
  void arrive() {
    arrived_ = 0;
    op_slot(segment_.rank()).reached.store(++reached_, std::memory_order_release);
    segment_.ring();
  }
  /// Whether all ranks have reached it.
  bool all_arrived() {
    while (arrived_ < segment_.size() &&
           op_slot(arrived_).reached.load(std::memory_order_acquire) >= reached_)
      ++arrived_;
    return arrived_ == segment_.size();
  }
  bool next();
  void agree();
  /// A rank that was stopped meanwhile would sum what the others, which waited too long for it, have freed.
  void expect_memory() const {
    if (!exchange_.is_direct()) return;  // all else is in the segment
    segment_.expect_memory_of({0, segment_.size()}, operation().number);
  }
  void look_for_slot() const;
  void look_for_missing() const;

  ShmSegment& segment_;
  ShmExchange exchange_;
  PollDeadline poll_deadline_;
  Step step_ = Step::post;
  int arrived_ = 0;  // ranks below this one have been seen in the phase
  std::uint64_t reached_;
};

bool ShmCollective::advance() {
  if (step_ == Step::post) {
    if (!segment_.slot_is_free(operation().number)) {
      if (poll_deadline_.time_to_look()) look_for_slot();
      return false;
    }
    post();
  }
  while (all_arrived()) {
    if (next()) continue;
    segment_.complete(operation().number);
    return true;
  }
  if (poll_deadline_.time_to_look()) look_for_missing();
  return false;
}

void ShmCollective::post() {
  poll_deadline_ = PollDeadline(
      segment_.timeout_or(operation().timeout));  // waiting for the slot was not the peers' fault
  if (!segment_.carries_out_steps())
    segment_.block(segment_.rank()).operation.store(operation().number, std::memory_order_relaxed);
  OpSlot& own = op_slot(segment_.rank());
  own.completed = segment_.completed();
  own.count = operation().count;
  own.kind = operation().kind;
  own.dtype = operation().dtype;
  own.op = operation().op;
  own.root = operation().root;
  exchange_.post(own);
  arrive();
  step_ = Step::agree;
}

// Does what follows the phase that all ranks have reached; false when the operation is complete.
bool ShmCollective::next() {
  switch (step_) {
    case Step::agree:
      agree();
      exchange_.choose_way();
      if (!exchange_.next_chunk()) return false;
      if (exchange_.is_small()) {
        exchange_.exchange();
        return false;
      }
      step_ = Step::exchange;
      if (exchange_.is_direct()) return next();
      exchange_.copy_in();
      break;
    case Step::exchange:
      expect_memory();
      exchange_.exchange();
      expect_memory();
      step_ = Step::finish;
      break;
    case Step::finish:
      exchange_.copy_out();
      if (!exchange_.next_chunk()) return false;
      exchange_.copy_in();
      step_ = Step::exchange;
      break;
    case Step::post:
      break;
  }
  arrive();
  return true;
}

void ShmCollective::agree() {
  const OpSlot& own = op_slot(segment_.rank());
  for (int other = 0; other < segment_.size(); ++other) {
    const OpSlot& theirs = op_slot(other);
    segment_.heard(other, theirs.completed);
    if (theirs.agrees_with(own)) continue;
    const auto described = [&](int rank, const OpSlot& slot) {
      Operation issued = slot.operation();
      issued.number = segment_.block(rank).operation.load(std::memory_order_relaxed);
      return text("rank ", segment_.name_of(rank), " issued ", issued.text());
    };
    const int first = std::min(other, segment_.rank());
    const int second = std::max(other, segment_.rank());
    throw Error(
        ErrorKind::mismatch,
        text("ranks disagree: ", described(first, op_slot(first)), ", ", described(second, op_slot(second))),
        "issue the same operations in the same order on every rank");
  }
}

void ShmCollective::look_for_slot() const {
  const std::uint64_t before = operation().number - RankBlock::slots;
  if (segment_.is_through(before)) {
    segment_.expect_present([&](int other) { return segment_.is_through(other, before); });
    if (!poll_deadline_.exhausted()) return;
    throw Error(ErrorKind::timeout,
                text("waited ", poll_deadline_.waited_seconds(), " s for ",
                     segment_.missing([&](int other) { return segment_.is_through(other, before); })),
                "look at what those ranks do, or raise the timeout");
  }
  // This rank dropped that operation itself, and told the others.
  if (const auto loss = segment_.lost(segment_.rank())) throw Error(*loss);
  if (poll_deadline_.exhausted()) {
    throw Error(ErrorKind::timeout,
                text("waited ", poll_deadline_.waited_seconds(), " s for this rank's operation #",
                     segment_.completed() + 1, " to end"),
                "it was dropped with its stream, or that stream waits for something that does not happen");
  }
}

void ShmCollective::look_for_missing() const {
  const auto is_here = [&](int other) {
    return op_slot(other).reached.load(std::memory_order_acquire) >= reached_;
  };
  segment_.expect_present(is_here);
  if (!poll_deadline_.exhausted()) return;
  throw Error(ErrorKind::timeout,
              text("waited ", poll_deadline_.waited_seconds(), " s for ", segment_.missing(is_here)),
              "look at what those ranks do, or raise the timeout");
}

}  // namespace

std::unique_ptr<PendingOp> make_shm_collective(ShmSegment& segment, const Operation& operation) {
  return std::make_unique<ShmCollective>(segment, operation);
}

std::unique_ptr<PendingOp> begin_shm_collective(ShmSegment& segment, const Operation& operation) {
  // Looks without anything new, which together cost about what queueing would: pauses, or yields of this
  // core.
  const int looks = segment.crowded() ? 2 : 32;
  ShmCollective now(segment, operation);
  if (const auto alone = segment.try_lock()) {
    std::uint64_t seen = 0;
    for (int look = 0; look < looks; ++look) {
      if (now.advance()) return nullptr;
      if (now.reached() != std::exchange(seen, now.reached())) look = 0;
      segment.give_way();
    }
  }
  return std::make_unique<ShmCollective>(std::move(now));
}

}  // namespace weft::detail
