// The meetings of a collective in shared memory. Small: one, at which the data is already there. Direct:
// meet, exchange, meet. Staged: two a chunk, so that staging space is not filled again before it is read.

#include <algorithm>
#include <utility>

#include "collectives/algorithms/shared_exchange.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

class SharedCollective final : public Engagement {
 public:
  SharedCollective(SharedGround& ground, const Operation& operation)
      : ground_(ground),
        exchange_(ground, operation),
        patience_(ground.timeout()),
        progress_(progress_of(operation.number, 0)) {}

  bool advance() override;
  void rested() override { patience_.rested(); }
  std::uint64_t progress() const { return progress_; }

 private:
  enum class Step : std::uint8_t { post, agree, exchange, finish };

  const Operation& operation() const { return exchange_.operation(); }
  Card& card(int rank) const { return ground_.card(rank, operation().number); }
  void post();
  /// Tells everybody that this rank has come to its next meeting.
  void arrive() {
    met_ = 0;
    card(ground_.rank()).progress.store(++progress_, std::memory_order_release);
    ground_.ring();
  }
  /// Whether everybody has come to it.
  bool all_met() {
    while (met_ < ground_.size() && card(met_).progress.load(std::memory_order_acquire) >= progress_) ++met_;
    return met_ == ground_.size();
  }
  bool next();
  void agree();
  void look_for_slot() const;
  void look_for_missing() const;

  SharedGround& ground_;
  SharedExchange exchange_;
  Patience patience_;
  Step step_ = Step::post;
  int met_ = 0;  // ranks up to here have been seen at the meeting
  std::uint64_t progress_;
};

bool SharedCollective::advance() {
  if (step_ == Step::post) {
    if (!ground_.slot_is_free(operation().number)) {
      if (patience_.time_to_look()) look_for_slot();
      return false;
    }
    post();
  }
  while (all_met()) {
    if (next()) continue;
    ground_.complete(operation().number);
    return true;
  }
  if (patience_.time_to_look()) look_for_missing();
  return false;
}

void SharedCollective::post() {
  patience_ = Patience(ground_.timeout());  // waiting for the slot was not the peers' fault
  ground_.line(ground_.rank()).operation.store(operation().number, std::memory_order_relaxed);
  Card& own = card(ground_.rank());
  own.completed = ground_.completed();
  own.count = operation().count;
  own.kind = operation().kind;
  own.dtype = operation().dtype;
  own.op = operation().op;
  own.root = operation().root;
  exchange_.post(own);
  arrive();
  step_ = Step::agree;
}

// What follows the meeting that everybody has reached; false when the operation is complete.
bool SharedCollective::next() {
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
      exchange_.exchange();
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

void SharedCollective::agree() {
  const Card& own = card(ground_.rank());
  for (int other = 0; other < ground_.size(); ++other) {
    const Card& theirs = card(other);
    ground_.heard(other, theirs.completed);
    if (theirs.agrees_with(own)) continue;
    const auto described = [&](int rank, const Card& card) {
      return text("rank ", ground_.name_of(rank), " issued ", card.operation().text());
    };
    const int first = std::min(other, ground_.rank());
    const int second = std::max(other, ground_.rank());
    throw Error(
        ErrorKind::mismatch,
        text("ranks disagree: ", described(first, card(first)), ", ", described(second, card(second))),
        "issue the same operations in the same order on every rank");
  }
}

void SharedCollective::look_for_slot() const {
  const std::uint64_t before = operation().number - Line::slots;
  if (ground_.is_through(before)) {
    ground_.expect_present([&](int other) { return ground_.is_through(other, before); });
    if (!patience_.exhausted()) return;
    throw Error(ErrorKind::timeout,
                text("waited ", patience_.waited_seconds(), " s for ",
                     ground_.missing([&](int other) { return ground_.is_through(other, before); })),
                "look at what those ranks do, or raise the timeout");
  }
  if (patience_.exhausted()) {
    throw Error(ErrorKind::timeout,
                text("waited ", patience_.waited_seconds(), " s for this rank's operation #",
                     ground_.completed() + 1, " to end"),
                "it was dropped with its stream, or that stream waits for something that does not happen");
  }
}

void SharedCollective::look_for_missing() const {
  const auto is_here = [&](int other) {
    return card(other).progress.load(std::memory_order_acquire) >= progress_;
  };
  ground_.expect_present(is_here);
  if (!patience_.exhausted()) return;
  throw Error(ErrorKind::timeout,
              text("waited ", patience_.waited_seconds(), " s for ", ground_.missing(is_here)),
              "look at what those ranks do, or raise the timeout");
}

}  // namespace

std::unique_ptr<Engagement> make_shared_collective(SharedGround& ground, const Operation& operation) {
  return std::make_unique<SharedCollective>(ground, operation);
}

std::unique_ptr<Engagement> begin_shared_collective(SharedGround& ground, const Operation& operation) {
  // Without seeing anything new, about what queueing costs: pauses, or turns of others on this core.
  const int looks = ground.crowded() ? 2 : 32;
  SharedCollective now(ground, operation);
  if (const auto alone = ground.try_alone()) {
    std::uint64_t seen = 0;
    for (int look = 0; look < looks; ++look) {
      if (now.advance()) return nullptr;
      if (now.progress() != std::exchange(seen, now.progress())) look = 0;
      ground.give_way();
    }
  }
  return std::make_unique<SharedCollective>(std::move(now));
}

}  // namespace weft::detail
