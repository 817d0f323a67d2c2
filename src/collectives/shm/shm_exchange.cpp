#include "collectives/shm/shm_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/kernels/reduce_kernel.hpp"
#include "collectives/kernels/slices.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// From this size on, dividing a broadcast pays for the second read of all ranks' slots that it costs.
constexpr std::size_t spread_bytes = 16 << 10;

bool fits_in_the_slot(const Operation& operation, int size) {
  const bool sends_parts =
      operation.kind == Collective::reduce_scatter || operation.kind == Collective::all_to_all;
  const int parts = operation.parts != nullptr ? operation.slices : sends_parts ? size : 1;
  return static_cast<std::size_t>(operation.count * parts) * size_of(operation.dtype) <=
         ShmSegment::small_bytes;
}

}  // namespace

std::string explain_shm(const Operation& operation, int size) {
  if (fits_in_the_slot(operation, size)) return "small";
  const bool spreads = operation.kind == Collective::broadcast && operation.bytes(size) >= spread_bytes;
  return text(spreads ? "direct, spread" : "direct", " (staged where buffers are private)");
}

ShmExchange::ShmExchange(ShmSegment& segment, const Operation& operation)
    : segment_(segment),
      operation_(operation),
      part_(takes_part_of_every_input() ? segment.rank() : 0),
      way_(Way::direct) {
  if (fits_in_the_slot(operation, segment.size())) way_ = Way::small;
}

void ShmExchange::post(OpSlot& own) const {
  const ConstView& in = operation_.in;
  if (!is_small()) {
    own.in = segment_.publish(in.data(), in.size_bytes());
    own.out = segment_.publish(operation_.out.data(), operation_.out.size_bytes());
  } else if (has_input(segment_.rank()) && in.size_bytes() > 0) {
    std::memcpy(segment_.small(segment_.rank(), operation_.number, in.size_bytes()), in.data(),
                in.size_bytes());
  }
}

void ShmExchange::choose_way() {
  chunk_ = operation_.count;
  if (is_small()) return;
  bool outputs_reachable = true;
  for (int other = 0; other < segment_.size(); ++other) {
    const OpSlot& theirs = op_slot(other);
    const bool output_needed = outputs_are_shared() && writes(other);
    if ((has_input(other) && !theirs.in.reachable) || (output_needed && !theirs.out.reachable))
      way_ = Way::staged;
    outputs_reachable = outputs_reachable && theirs.out.reachable;
  }
  if (way_ == Way::staged) {
    const auto room = static_cast<std::int64_t>(ShmSegment::staging_bytes / size_of(operation_.dtype));
    chunk_ = std::max<std::int64_t>(1, room / parts());
  }
  spreads_ = operation_.kind == Collective::broadcast && way_ == Way::direct && outputs_reachable &&
             bytes(operation_.count) >= spread_bytes;
}

bool ShmExchange::next_chunk() {
  begin_ += length_;
  length_ = std::min(chunk_, operation_.count - begin_);
  return length_ > 0;
}

// What this rank needs of its own it takes from where it is.
void ShmExchange::copy_in() {
  if (way_ != Way::staged || !has_input(segment_.rank())) return;
  std::byte* const staging = segment_.staging_in(segment_.rank(), operation_.number);
  const std::byte* const chunk = operation_.in.bytes() + bytes(begin_);
  if (outputs_are_shared()) {
    const Slice mine = slice_of(length_, segment_.rank(), segment_.size(), operation_.dtype);
    const std::int64_t end = mine.begin + mine.count;
    std::memcpy(staging, chunk, bytes(mine.begin));
    std::memcpy(staging + bytes(end), chunk + bytes(end), bytes(length_ - end));
    return;
  }
  const std::span<const int> own = own_parts();
  for (std::int64_t part = 0; part < parts(); ++part) {
    if (takes_part_of_every_input() && std::ranges::find(own, part) != own.end()) continue;
    std::memcpy(staging + bytes(part * length_), chunk + bytes(part * operation_.count), bytes(length_));
  }
}

const std::byte* ShmExchange::input(int rank, std::int64_t part) const {
  switch (way_) {
    case Way::small:
      return segment_.small(rank, operation_.number, bytes(operation_.count * parts())) +
             bytes(part * operation_.count);
    case Way::direct:
      return segment_.resolve(rank, op_slot(rank).in, bytes(part * operation_.count + begin_ + length_)) +
             bytes(part * operation_.count + begin_);
    case Way::staged:
      break;
  }
  if (rank == segment_.rank()) return operation_.in.bytes() + bytes(part * operation_.count + begin_);
  return segment_.staging_in(rank, operation_.number) + bytes(part * length_);
}

std::byte* ShmExchange::output(int rank) const {
  return segment_.resolve(rank, op_slot(rank).out, bytes(begin_ + length_)) + bytes(begin_);
}

void ShmExchange::exchange() {
  if (operation_.kind == Collective::gather_slices) {
    pull_slices();
  } else if (operation_.kind == Collective::gather_parts) {
    pull_parts();
  } else if (operation_.reduces() && takes_part_of_every_input()) {
    reduce_my_parts();
  } else if (operation_.reduces()) {
    reduce_my_share();
  } else if (spreads_) {
    spread_my_slice();
  } else {
    pull();
  }
}

void ShmExchange::reduce_my_share() {
  const int size = segment_.size();
  const int self = segment_.rank();
  const bool by_slices = operation_.kind == Collective::reduce_slices;
  const bool alone = is_small() || by_slices;
  if (by_slices && self >= operation_.slices) return;
  if (is_small() && operation_.kind == Collective::reduce && self != operation_.root) return;
  const Slice mine = by_slices ? slice_of(length_, self, operation_.slices, operation_.dtype)
                     : alone   ? Slice{0, length_}
                               : slice_of(length_, self, size, operation_.dtype);
  if (mine.count == 0) return;
  const std::size_t begin = bytes(mine.begin);

  Scratch& scratch = segment_.scratch();
  scratch.clear();
  for (int other = 0; other < size; ++other) scratch.sources.push_back(input(other) + begin);
  if (alone) {
    scratch.cached.push_back(own_output() + begin);
  } else if (way_ == Way::staged) {
    if (writes(self)) scratch.cached.push_back(own_output() + begin);
    scratch.cached.push_back(segment_.staging_out(self, operation_.number) + begin);
  }
  for (int other = 0; other < size && !alone && way_ == Way::direct; ++other) {
    if (!writes(other)) continue;
    const bool streams = other != self && streams_to_peers(bytes(length_));
    (streams ? scratch.streamed : scratch.cached).push_back(output(other) + begin);
  }
  reduce(scratch.sources, {scratch.cached, scratch.streamed}, mine.count, operation_.dtype, operation_.op,
         operation_.divisor);
}

void ShmExchange::reduce_my_parts() {
  Scratch& scratch = segment_.scratch();
  std::byte* sum = own_output();
  for (const int part : own_parts()) {
    scratch.clear();
    for (int other = 0; other < segment_.size(); ++other) scratch.sources.push_back(input(other, part));
    reduce(scratch.sources, {std::span(&sum, 1)}, length_, operation_.dtype, operation_.op,
           operation_.divisor);
    sum += bytes(operation_.count);
  }
}

void ShmExchange::spread_my_slice() {
  const Slice mine = slice_of(length_, segment_.rank(), segment_.size(), operation_.dtype);
  if (mine.count == 0) return;
  Scratch& scratch = segment_.scratch();
  scratch.clear();
  for (int other = 0; other < segment_.size(); ++other) {
    if (other == operation_.root) continue;
    const bool streams =
        other == segment_.rank() ? streams_home(bytes(length_)) : streams_to_peers(bytes(length_));
    (streams ? scratch.streamed : scratch.cached).push_back(output(other) + bytes(mine.begin));
  }
  copy(input(operation_.root) + bytes(mine.begin), {scratch.cached, scratch.streamed}, bytes(mine.count));
}

void ShmExchange::pull() {
  const bool from_all = operation_.kind != Collective::broadcast;
  for (int other = 0; other < segment_.size(); ++other) {
    if (!from_all && (other != operation_.root || segment_.rank() == operation_.root)) continue;
    const std::int64_t part = from_all ? other : 0;
    std::byte* destination = operation_.out.bytes() + bytes(part * operation_.count + begin_);
    const std::byte* source = input(other);
    // In place a rank may read its own part meanwhile, which others may find elsewhere: it is not written.
    const bool in_place = other == segment_.rank() && operation_.in.bytes() + bytes(begin_) == destination;
    if (source != destination && !in_place) pull_part(source, destination);
  }
}

void ShmExchange::pull_part(const std::byte* source, std::byte* destination) const {
  if (streams_home(operation_.out.size_bytes())) {
    copy(source, {{}, {&destination, 1}}, bytes(length_));
  } else {
    std::memcpy(destination, source, bytes(length_));
  }
}

void ShmExchange::pull_parts() {
  for (int part = 0; part < operation_.slices; ++part) {
    const int holder = operation_.parts->holders[static_cast<std::size_t>(part)];
    if (holder != segment_.rank())
      pull_part(input(holder, part), own_output() + bytes(part * operation_.count));
  }
}

void ShmExchange::pull_slices() {
  for (int other = 0; other < operation_.slices; ++other) {
    const Slice theirs = slice_of(length_, other, operation_.slices, operation_.dtype);
    if (other == segment_.rank() || theirs.count == 0) continue;
    std::memcpy(own_output() + bytes(theirs.begin), input(other) + bytes(theirs.begin), bytes(theirs.count));
  }
}

void ShmExchange::copy_out() {
  if (way_ != Way::staged || !outputs_are_shared() || !writes(segment_.rank())) return;
  for (int other = 0; other < segment_.size(); ++other) {
    const Slice theirs = slice_of(length_, other, segment_.size(), operation_.dtype);
    if (other == segment_.rank() || theirs.count == 0) continue;
    std::memcpy(own_output() + bytes(theirs.begin),
                segment_.staging_out(other, operation_.number) + bytes(theirs.begin), bytes(theirs.count));
  }
}

}  // namespace weft::detail
