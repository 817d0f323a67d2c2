// Collectives in shared memory.
//
// Direct, when every rank's buffers are reachable: meet, exchange, meet. For reductions each rank reduces its
// slice from all inputs and stores it to all outputs: 2 bytes of memory traffic per message byte and rank,
// the minimum. The others pull. Staged, when any rank's are not: the same exchange over staging space, chunk
// by chunk, with a copy in and a copy out.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/algorithms/reduce_kernel.hpp"
#include "collectives/algorithms/shared_ground.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// From this size on, a rank writes its results past its caches into the others' memory: they will have left
// the caches before they are read, and their lines need not be owned here first. Where the last-level cache
// holds whole models, that costs more than it saves at any size (bench/results).
std::size_t streamed_bytes() {
  static const auto cache = static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  constexpr std::size_t holds_models = std::size_t{64} << 20;
  return cache < holds_models ? std::size_t{1} << 20 : cache;
}

class SharedCollective final : public Engagement {
 public:
  SharedCollective(SharedGround& ground, const Operation& operation)
      : ground_(ground),
        operation_(operation),
        patience_(ground_.timeout()),
        progress_(progress_of(operation.number, 0)) {}

 private:
  enum class Step { post, agree, exchange, finish };

  bool advance() override {
    if (step_ == Step::post) {
      if (!ground_.slot_is_free(operation_.number)) {
        if (patience_.time_to_look()) look_for_slot();
        return false;
      }
      post();
    }
    while (ground_.everybody_at(operation_.number, progress_)) {
      if (next()) continue;
      ground_.free_slot(operation_.number, progress_);
      return true;
    }
    if (patience_.time_to_look()) look_for_missing(operation_.number, progress_);
    return false;
  }
  void post();
  /// Tells everybody that this rank has come to its next meeting.
  void arrive() { card(ground_.rank()).progress.store(++progress_, std::memory_order_release); }
  bool next();
  void agree();
  void look_for_slot() const;
  void look_for_missing(std::uint64_t number, std::uint64_t progress) const;
  void copy_in();
  void exchange();
  void reduce_my_slice();
  void pull();
  void copy_out();

  Card& card(int rank) const { return ground_.card(rank, operation_.number); }
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

  SharedGround& ground_;
  Operation operation_;
  Patience patience_;
  Step step_ = Step::post;
  std::uint64_t progress_;
  bool direct_ = true;
  std::int64_t begin_ = 0;  // of the chunk at hand, in the operation's unit
  std::int64_t length_ = 0;
  std::int64_t chunk_ = 0;
};

void SharedCollective::post() {
  patience_ = Patience(ground_.timeout());  // waiting for the slot was not the peers' fault
  ground_.line(ground_.rank()).operation.store(operation_.number, std::memory_order_relaxed);
  const View& out = operation_.out;
  const ConstView& in = operation_.in;
  Card& own = card(ground_.rank());
  own.number = operation_.number;
  own.count = operation_.count;
  own.kind = operation_.kind;
  own.dtype = operation_.dtype;
  own.op = operation_.op;
  own.root = operation_.root;
  own.in = ground_.publish(in.data(), in.size_bytes());
  own.out = ground_.publish(out.data(), out.size_bytes());
  arrive();
  step_ = Step::agree;
}

// What follows the meeting that everybody has reached; false when the operation is complete.
bool SharedCollective::next() {
  switch (step_) {
    case Step::agree:
      agree();
      if (operation_.count == 0 || operation_.kind == Collective::barrier) {
        arrive();  // nobody waits for it here; it says that the cards are read
        return false;
      }
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
  arrive();
  return true;
}

void SharedCollective::agree() {
  const Card& own = card(ground_.rank());
  for (int other = 0; other < ground_.size(); ++other) {
    const Card& theirs = card(other);
    if (!theirs.operation().agrees_with(own.operation())) {
      const auto described = [](int rank, const Card& card) {
        return text("rank ", rank, " issued ", card.operation().text());
      };
      const int first = std::min(other, ground_.rank());
      const int second = std::max(other, ground_.rank());
      throw Error(
          ErrorKind::mismatch,
          text("ranks disagree: ", described(first, card(first)), ", ", described(second, card(second))),
          "issue the same operations in the same order on every rank");
    }
    const bool input_needed = operation_.kind != Collective::broadcast || other == operation_.root;
    const bool output_needed = outputs_are_shared() && writes(other);
    direct_ = direct_ && (!input_needed || theirs.in.reachable) && (!output_needed || theirs.out.reachable);
  }
  const std::int64_t parts = takes_part_of_every_input() ? ground_.size() : 1;
  const auto staged = static_cast<std::int64_t>(SharedGround::staging_bytes / size_of(own.dtype)) / parts;
  chunk_ = direct_ ? operation_.count : std::max<std::int64_t>(1, staged);
}

void SharedCollective::look_for_slot() const {
  const std::uint64_t before = operation_.number - Line::slots;
  if (const auto progress = ground_.completed(before)) return look_for_missing(before, *progress);
  if (patience_.exhausted()) {
    throw Error(
        ErrorKind::timeout,
        text("waited ", patience_.waited_seconds(), " s for this rank's operation #", before, " to end"),
        "it was dropped with its stream, or that stream waits for something that does not happen");
  }
}

void SharedCollective::look_for_missing(std::uint64_t number, std::uint64_t progress) const {
  for (int other = 0; other < ground_.size(); ++other) {
    // In this order: a rank may arrive, finish and leave between the two looks, and that is no loss.
    const auto reason = ground_.lost(other);
    const bool arrived = ground_.card(other, number).progress.load(std::memory_order_acquire) >= progress;
    if (reason && !arrived) throw Error(ErrorKind::peer_lost, *reason);
  }
  if (patience_.exhausted()) {
    throw Error(ErrorKind::timeout,
                text("waited ", patience_.waited_seconds(), " s for ", ground_.missing_at(number, progress)),
                "look at what those ranks do, or raise the timeout");
  }
}

void SharedCollective::copy_in() {
  if (operation_.kind == Collective::broadcast && ground_.rank() != operation_.root) return;
  std::byte* staging = ground_.staging_in(ground_.rank(), operation_.number);
  const std::int64_t parts = takes_part_of_every_input() ? ground_.size() : 1;
  for (std::int64_t part = 0; part < parts; ++part) {
    std::memcpy(staging + bytes(part * length_),
                operation_.in.bytes() + bytes(part * operation_.count + begin_), bytes(length_));
  }
}

const std::byte* SharedCollective::input(int rank) const {
  const std::int64_t part = takes_part_of_every_input() ? ground_.rank() : 0;
  if (direct_) return ground_.resolve(rank, card(rank).in) + bytes(part * operation_.count + begin_);
  return ground_.staging_in(rank, operation_.number) + bytes(part * length_);
}

std::byte* SharedCollective::output(int rank) const {
  if (operation_.kind == Collective::reduce_scatter) return operation_.out.bytes() + bytes(begin_);
  return direct_ ? ground_.resolve(rank, card(rank).out) + bytes(begin_)
                 : ground_.staging_out(rank, operation_.number);
}

void SharedCollective::exchange() {
  if (operation_.reduces()) {
    reduce_my_slice();
  } else {
    pull();
  }
}

void SharedCollective::reduce_my_slice() {
  const int size = ground_.size();
  const bool scattered = operation_.kind == Collective::reduce_scatter;
  // Slices end on cache lines, so that no line is written by two ranks.
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(operation_.dtype));
  const std::int64_t slice = (length_ + size * line - 1) / (size * line) * line;
  const std::int64_t first = scattered ? 0 : std::min(length_, slice * ground_.rank());
  const std::int64_t count = scattered ? length_ : std::min(slice, length_ - first);
  if (count == 0) return;

  std::vector<const std::byte*> sources;
  std::vector<std::byte*> cached;
  std::vector<std::byte*> streamed;
  for (int other = 0; other < size; ++other) sources.push_back(input(other) + bytes(first));
  if (scattered) cached.push_back(output(ground_.rank()));
  for (int other = 0; other < size && !scattered; ++other) {
    if (!writes(other)) continue;
    const bool far = other != ground_.rank() && bytes(length_) >= streamed_bytes();
    (far ? streamed : cached).push_back(output(other) + bytes(first));
  }
  reduce(sources, {cached, streamed}, count, operation_.dtype, operation_.op);
}

void SharedCollective::pull() {
  const bool from_all = operation_.kind != Collective::broadcast;
  for (int other = 0; other < ground_.size(); ++other) {
    if (!from_all && other != operation_.root) continue;
    const std::int64_t part = from_all ? other : 0;
    std::byte* destination = operation_.out.bytes() + bytes(part * operation_.count + begin_);
    const std::byte* source = input(other);
    if (source != destination) std::memcpy(destination, source, bytes(length_));
  }
}

void SharedCollective::copy_out() {
  if (!outputs_are_shared() || !writes(ground_.rank())) return;
  std::memcpy(operation_.out.bytes() + bytes(begin_), ground_.staging_out(ground_.rank(), operation_.number),
              bytes(length_));
}

}  // namespace

std::unique_ptr<Engagement> make_shared_collective(SharedGround& ground, const Operation& operation) {
  return std::make_unique<SharedCollective>(ground, operation);
}

}  // namespace weft::detail
