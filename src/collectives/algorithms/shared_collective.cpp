// Collectives in shared memory.
//
// Direct, when every rank's buffers are reachable: meet, exchange, meet. For reductions each rank reduces its
// slice from all inputs and stores it to all outputs: 2 bytes of memory traffic per message byte and rank,
// the minimum. The others pull. Staged, when any rank's are not: the same exchange over staging space, chunk
// by chunk, with a copy in and a copy out.

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/algorithms/reduce_kernel.hpp"
#include "collectives/algorithms/shared_ground.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

class SharedCollective final : public Task {
 public:
  SharedCollective(std::shared_ptr<SharedGround> ground, const Operation& operation)
      : ground_(std::move(ground)), operation_(operation), patience_(ground_->timeout()) {}

  bool advance() override {
    if (step_ == Step::post) post();
    while (ground_->everybody_at(meeting_)) {
      if (!next()) return true;
    }
    if (patience_.time_to_look()) look_for_missing();
    return false;
  }

 private:
  enum class Step { post, agree, exchange, finish };

  void post();
  bool next();
  void agree();
  void look_for_missing() const;
  void copy_in();
  void exchange();
  void reduce_my_slice();
  void pull();
  void copy_out();

  const Card& card(int rank) const { return ground_->line(rank).cards[operation_.number % 2]; }
  bool outputs_are_shared() const {
    return operation_.kind == Collective::all_reduce || operation_.kind == Collective::reduce;
  }
  bool takes_part_of_every_input() const {
    return operation_.kind == Collective::reduce_scatter || operation_.kind == Collective::all_to_all;
  }
  bool writes(int rank) const { return operation_.kind == Collective::all_reduce || rank == operation_.root; }
  std::size_t bytes(std::int64_t count) const {
    return static_cast<std::size_t>(count) * size_of(operation_.dtype);
  }
  /// The elements of `rank`'s input that this rank needs in this round.
  const std::byte* input(int rank) const;
  std::byte* output(int rank) const;

  std::shared_ptr<SharedGround> ground_;
  Operation operation_;
  Patience patience_;
  Step step_ = Step::post;
  std::uint64_t meeting_ = 0;
  bool direct_ = true;
  std::int64_t begin_ = 0;  // of the chunk at hand, in the operation's unit
  std::int64_t length_ = 0;
  std::int64_t chunk_ = 0;
};

void SharedCollective::post() {
  Line& own = ground_->line(ground_->rank());
  own.operation.store(operation_.number, std::memory_order_relaxed);
  const View& out = operation_.out;
  const ConstView& in = operation_.in;
  own.cards[operation_.number % 2] = {operation_.number,
                                      operation_.count,
                                      operation_.kind,
                                      operation_.dtype,
                                      operation_.op,
                                      operation_.root,
                                      ground_->publish(in.data(), in.size_bytes()),
                                      ground_->publish(out.data(), out.size_bytes())};
  meeting_ = ground_->arrive();
  step_ = Step::agree;
}

// What follows the meeting that everybody has reached; false when the operation is complete.
bool SharedCollective::next() {
  switch (step_) {
    case Step::agree:
      agree();
      if (operation_.count == 0 || operation_.kind == Collective::barrier) return false;
      length_ = std::min(chunk_, operation_.count);
      step_ = Step::exchange;
      if (direct_) return next();
      copy_in();
      break;
    case Step::exchange:
      exchange();
      step_ = Step::finish;
      break;
    case Step::finish:
      if (!direct_) copy_out();
      begin_ += length_;
      length_ = std::min(chunk_, operation_.count - begin_);
      if (length_ == 0) return false;
      copy_in();
      step_ = Step::exchange;
      break;
    case Step::post:
      break;
  }
  meeting_ = ground_->arrive();
  return true;
}

void SharedCollective::agree() {
  const Card& own = card(ground_->rank());
  for (int other = 0; other < ground_->size(); ++other) {
    const Card& theirs = card(other);
    if (theirs.kind != own.kind || theirs.count != own.count || theirs.dtype != own.dtype ||
        theirs.op != own.op || theirs.root != own.root || theirs.number != own.number) {
      const auto described = [](int rank, const Card& card) {
        return text("rank ", rank, " issued ", name(card.kind), " #", card.number, " of ", card.count, " ",
                    card.dtype, " (", card.op, ", root ", card.root, ")");
      };
      const int first = std::min(other, ground_->rank());
      const int second = std::max(other, ground_->rank());
      throw Error(
          ErrorKind::mismatch,
          text("ranks disagree: ", described(first, card(first)), ", ", described(second, card(second))),
          "issue the same operations in the same order on every rank");
    }
    const bool input_needed = operation_.kind != Collective::broadcast || other == operation_.root;
    const bool output_needed = outputs_are_shared() && writes(other);
    direct_ = direct_ && (!input_needed || theirs.in.reachable) && (!output_needed || theirs.out.reachable);
  }
  const std::int64_t parts = takes_part_of_every_input() ? ground_->size() : 1;
  const auto staged = static_cast<std::int64_t>(SharedGround::staging_bytes / size_of(own.dtype)) / parts;
  chunk_ = direct_ ? operation_.count : std::max<std::int64_t>(1, staged);
}

void SharedCollective::look_for_missing() const {
  for (int other = 0; other < ground_->size(); ++other) {
    // In this order: a rank may arrive, finish and leave between the two looks, and that is no loss.
    const auto reason = ground_->lost(other);
    const bool arrived = ground_->line(other).meetings.load(std::memory_order_acquire) >= meeting_;
    if (reason && !arrived) throw Error(ErrorKind::peer_lost, *reason);
  }
  if (patience_.exhausted()) {
    throw Error(ErrorKind::timeout,
                text("waited ", patience_.waited_seconds(), " s for ", ground_->missing_at(meeting_)),
                "look at what those ranks do, or raise the timeout");
  }
}

void SharedCollective::copy_in() {
  if (operation_.kind == Collective::broadcast && ground_->rank() != operation_.root) return;
  std::byte* staging = ground_->staging_in(ground_->rank());
  const std::int64_t parts = takes_part_of_every_input() ? ground_->size() : 1;
  for (std::int64_t part = 0; part < parts; ++part) {
    std::memcpy(staging + bytes(part * length_),
                operation_.in.bytes() + bytes(part * operation_.count + begin_), bytes(length_));
  }
}

const std::byte* SharedCollective::input(int rank) const {
  const std::int64_t part = takes_part_of_every_input() ? ground_->rank() : 0;
  if (direct_) return ground_->resolve(rank, card(rank).in) + bytes(part * operation_.count + begin_);
  return ground_->staging_in(rank) + bytes(part * length_);
}

std::byte* SharedCollective::output(int rank) const {
  if (operation_.kind == Collective::reduce_scatter) return operation_.out.bytes() + bytes(begin_);
  return direct_ ? ground_->resolve(rank, card(rank).out) + bytes(begin_) : ground_->staging_out(rank);
}

void SharedCollective::exchange() {
  if (operation_.reduces()) {
    reduce_my_slice();
  } else {
    pull();
  }
}

void SharedCollective::reduce_my_slice() {
  const int size = ground_->size();
  const bool scattered = operation_.kind == Collective::reduce_scatter;
  // Slices end on cache lines, so that no line is written by two ranks.
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(operation_.dtype));
  const std::int64_t slice = (length_ + size * line - 1) / (size * line) * line;
  const std::int64_t first = scattered ? 0 : std::min(length_, slice * ground_->rank());
  const std::int64_t count = scattered ? length_ : std::min(slice, length_ - first);
  if (count == 0) return;

  std::vector<const std::byte*> sources;
  std::vector<std::byte*> destinations;
  for (int other = 0; other < size; ++other) sources.push_back(input(other) + bytes(first));
  if (scattered) {
    destinations.push_back(output(ground_->rank()));
  } else {
    for (int other = 0; other < size; ++other) {
      if (writes(other)) destinations.push_back(output(other) + bytes(first));
    }
  }
  reduce(sources, destinations, count, operation_.dtype, operation_.op);
}

void SharedCollective::pull() {
  const bool from_all = operation_.kind != Collective::broadcast;
  for (int other = 0; other < ground_->size(); ++other) {
    if (!from_all && other != operation_.root) continue;
    const std::int64_t part = from_all ? other : 0;
    std::byte* destination = operation_.out.bytes() + bytes(part * operation_.count + begin_);
    const std::byte* source = input(other);
    if (source != destination) std::memcpy(destination, source, bytes(length_));
  }
}

void SharedCollective::copy_out() {
  if (!outputs_are_shared() || !writes(ground_->rank())) return;
  std::memcpy(operation_.out.bytes() + bytes(begin_), ground_->staging_out(ground_->rank()), bytes(length_));
}

}  // namespace

std::unique_ptr<Task> make_shared_collective(std::shared_ptr<SharedGround> ground,
                                             const Operation& operation) {
  return std::make_unique<SharedCollective>(std::move(ground), operation);
}

}  // namespace weft::detail
