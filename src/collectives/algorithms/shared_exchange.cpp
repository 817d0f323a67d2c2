#include "collectives/algorithms/shared_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/algorithms/reduce_kernel.hpp"
#include "collectives/algorithms/slices.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// From here on a broadcast is worth the second look at everybody's card lines that dividing it takes.
constexpr std::size_t spread_bytes = 16 << 10;

bool fits_beside_the_card(const Operation& operation, int size) {
  const bool sends_parts =
      operation.kind == Collective::reduce_scatter || operation.kind == Collective::all_to_all;
  return static_cast<std::size_t>(operation.count * (sends_parts ? size : 1)) * size_of(operation.dtype) <=
         SharedGround::small_bytes;
}

}  // namespace

std::string explain_shared(const Operation& operation, int size) {
  if (fits_beside_the_card(operation, size)) return "small";
  const bool spreads = operation.kind == Collective::broadcast && operation.bytes(size) >= spread_bytes;
  return text(spreads ? "direct, spread" : "direct", " (staged where buffers are private)");
}

SharedExchange::SharedExchange(SharedGround& ground, const Operation& operation)
    : ground_(ground), operation_(operation), way_(Way::direct) {
  if (fits_beside_the_card(operation, ground.size())) way_ = Way::small;
}

void SharedExchange::post(Card& own) const {
  const ConstView& in = operation_.in;
  if (!is_small()) {
    own.in = ground_.publish(in.data(), in.size_bytes());
    own.out = ground_.publish(operation_.out.data(), operation_.out.size_bytes());
  } else if (has_input(ground_.rank()) && in.size_bytes() > 0) {
    std::memcpy(ground_.small(ground_.rank(), operation_.number, in.size_bytes()), in.data(),
                in.size_bytes());
  }
}

void SharedExchange::choose_way() {
  chunk_ = operation_.count;
  if (is_small()) return;
  bool outputs_reachable = true;
  for (int other = 0; other < ground_.size(); ++other) {
    const Card& theirs = card(other);
    const bool output_needed = outputs_are_shared() && writes(other);
    if ((has_input(other) && !theirs.in.reachable) || (output_needed && !theirs.out.reachable))
      way_ = Way::staged;
    outputs_reachable = outputs_reachable && theirs.out.reachable;
  }
  if (way_ == Way::staged) {
    const auto room = static_cast<std::int64_t>(SharedGround::staging_bytes / size_of(operation_.dtype));
    chunk_ = std::max<std::int64_t>(1, room / parts());
  }
  spreads_ = operation_.kind == Collective::broadcast && way_ == Way::direct && outputs_reachable &&
             bytes(operation_.count) >= spread_bytes;
}

bool SharedExchange::next_chunk() {
  begin_ += length_;
  length_ = std::min(chunk_, operation_.count - begin_);
  return length_ > 0;
}

// What this rank needs of its own it takes from where it is.
void SharedExchange::copy_in() {
  if (way_ != Way::staged || !has_input(ground_.rank())) return;
  std::byte* const staging = ground_.staging_in(ground_.rank(), operation_.number);
  const std::byte* const chunk = operation_.in.bytes() + bytes(begin_);
  if (outputs_are_shared()) {
    const Slice mine = slice_of(length_, ground_.rank(), ground_.size(), operation_.dtype);
    const std::int64_t end = mine.begin + mine.count;
    std::memcpy(staging, chunk, bytes(mine.begin));
    std::memcpy(staging + bytes(end), chunk + bytes(end), bytes(length_ - end));
    return;
  }
  for (std::int64_t part = 0; part < parts(); ++part) {
    if (takes_part_of_every_input() && part == ground_.rank()) continue;
    std::memcpy(staging + bytes(part * length_), chunk + bytes(part * operation_.count), bytes(length_));
  }
}

const std::byte* SharedExchange::input(int rank) const {
  const std::int64_t part = takes_part_of_every_input() ? ground_.rank() : 0;
  switch (way_) {
    case Way::small:
      return ground_.small(rank, operation_.number, bytes(operation_.count * parts())) +
             bytes(part * operation_.count);
    case Way::direct:
      return ground_.resolve(rank, card(rank).in) + bytes(part * operation_.count + begin_);
    case Way::staged:
      break;
  }
  if (rank == ground_.rank()) return operation_.in.bytes() + bytes(part * operation_.count + begin_);
  return ground_.staging_in(rank, operation_.number) + bytes(part * length_);
}

std::byte* SharedExchange::output(int rank) const {
  return ground_.resolve(rank, card(rank).out) + bytes(begin_);
}

void SharedExchange::exchange() {
  if (operation_.kind == Collective::gather_slices) {
    pull_slices();
  } else if (operation_.reduces()) {
    reduce_my_share();
  } else if (spreads_) {
    spread_my_slice();
  } else {
    pull();
  }
}

void SharedExchange::reduce_my_share() {
  const int size = ground_.size();
  const int self = ground_.rank();
  const bool by_slices = operation_.kind == Collective::reduce_slices;
  const bool alone = is_small() || by_slices || operation_.kind == Collective::reduce_scatter;
  if (by_slices && self >= operation_.slices) return;
  if (is_small() && operation_.kind == Collective::reduce && self != operation_.root) return;
  const Slice mine = by_slices ? slice_of(length_, self, operation_.slices, operation_.dtype)
                     : alone   ? Slice{0, length_}
                               : slice_of(length_, self, size, operation_.dtype);
  if (mine.count == 0) return;
  const std::size_t begin = bytes(mine.begin);

  Scratch& scratch = ground_.scratch();
  scratch.clear();
  for (int other = 0; other < size; ++other) scratch.sources.push_back(input(other) + begin);
  if (alone) {
    scratch.cached.push_back(own_output() + begin);
  } else if (way_ == Way::staged) {
    if (writes(self)) scratch.cached.push_back(own_output() + begin);
    scratch.cached.push_back(ground_.staging_out(self, operation_.number) + begin);
  }
  for (int other = 0; other < size && !alone && way_ == Way::direct; ++other) {
    if (!writes(other)) continue;
    const bool streams = other != self && streams_to_peers(bytes(length_));
    (streams ? scratch.streamed : scratch.cached).push_back(output(other) + begin);
  }
  reduce(scratch.sources, {scratch.cached, scratch.streamed}, mine.count, operation_.dtype, operation_.op,
         operation_.averaged);
}

void SharedExchange::spread_my_slice() {
  const Slice mine = slice_of(length_, ground_.rank(), ground_.size(), operation_.dtype);
  if (mine.count == 0) return;
  Scratch& scratch = ground_.scratch();
  scratch.clear();
  for (int other = 0; other < ground_.size(); ++other) {
    if (other == operation_.root) continue;
    const bool streams =
        other == ground_.rank() ? streams_home(bytes(length_)) : streams_to_peers(bytes(length_));
    (streams ? scratch.streamed : scratch.cached).push_back(output(other) + bytes(mine.begin));
  }
  copy(input(operation_.root) + bytes(mine.begin), {scratch.cached, scratch.streamed}, bytes(mine.count));
}

void SharedExchange::pull() {
  const bool from_all = operation_.kind != Collective::broadcast;
  const bool streams = streams_home(operation_.out.size_bytes());
  for (int other = 0; other < ground_.size(); ++other) {
    if (!from_all && (other != operation_.root || ground_.rank() == operation_.root)) continue;
    const std::int64_t part = from_all ? other : 0;
    std::byte* destination = operation_.out.bytes() + bytes(part * operation_.count + begin_);
    const std::byte* source = input(other);
    // In place a rank may read its own part meanwhile, which others may find elsewhere: it is not written.
    const bool in_place = other == ground_.rank() && operation_.in.bytes() + bytes(begin_) == destination;
    if (source == destination || in_place) continue;
    if (streams) {
      copy(source, {{}, {&destination, 1}}, bytes(length_));
    } else {
      std::memcpy(destination, source, bytes(length_));
    }
  }
}

void SharedExchange::pull_slices() {
  for (int other = 0; other < operation_.slices; ++other) {
    const Slice theirs = slice_of(length_, other, operation_.slices, operation_.dtype);
    if (other == ground_.rank() || theirs.count == 0) continue;
    std::memcpy(own_output() + bytes(theirs.begin), input(other) + bytes(theirs.begin), bytes(theirs.count));
  }
}

void SharedExchange::copy_out() {
  if (way_ != Way::staged || !outputs_are_shared() || !writes(ground_.rank())) return;
  for (int other = 0; other < ground_.size(); ++other) {
    const Slice theirs = slice_of(length_, other, ground_.size(), operation_.dtype);
    if (other == ground_.rank() || theirs.count == 0) continue;
    std::memcpy(own_output() + bytes(theirs.begin),
                ground_.staging_out(other, operation_.number) + bytes(theirs.begin), bytes(theirs.count));
  }
}

}  // namespace weft::detail
