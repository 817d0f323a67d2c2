#include "collectives/shm/shm_backend.hpp"

#include "collectives/diagnosis/operation_words.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

std::uint64_t packed(const Operation& operation) {
  return static_cast<std::uint64_t>(operation.kind) | static_cast<std::uint64_t>(operation.dtype) << 8 |
         static_cast<std::uint64_t>(operation.op) << 16 | static_cast<std::uint64_t>(operation.root) << 32;
}

/// What stands in the slot; nothing while its owner writes there.
std::optional<Operation> read(const Posted& posted) {
  const std::uint64_t number = posted.number.load(std::memory_order_acquire);
  const std::int64_t count = posted.count.load(std::memory_order_acquire);
  const std::uint64_t what = posted.what.load(std::memory_order_acquire);
  if (number == 0 || posted.number.load(std::memory_order_acquire) != number) return std::nullopt;
  return Operation{.kind = static_cast<Collective>(what & 0xff),
                   .number = number,
                   .count = count,
                   .dtype = static_cast<DataType>(what >> 8 & 0xff),
                   .op = static_cast<ReduceOp>(what >> 16 & 0xff),
                   .root = static_cast<int>(what >> 32)};
}

}  // namespace

void ShmPeerStatus::issued(const Operation& operation) {
  RankBlock& own = segment_.block(segment_.rank());
  Posted& posted = own.posted[operation.number % RankBlock::slots];
  posted.number.store(0, std::memory_order_release);
  posted.count.store(operation.count, std::memory_order_release);
  posted.what.store(packed(operation), std::memory_order_release);
  posted.number.store(operation.number, std::memory_order_release);
  own.device_operation.store(operation.number, std::memory_order_release);
}

void ShmPeerStatus::compare(const Operation& operation) const {
  for (int other = 0; other < segment_.size(); ++other) {
    const auto theirs = read(segment_.block(other).posted[operation.number % RankBlock::slots]);
    if (!theirs || theirs->number != operation.number || theirs->agrees_with(operation)) continue;
    throw disagreement(segment_.name_of(segment_.rank()), operation, segment_.name_of(other), *theirs);
  }
}

std::string ShmPeerStatus::behind(std::uint64_t number) const {
  std::ostringstream out;
  const char* separator = "";
  for (int other = 0; other < segment_.size(); ++other) {
    const std::uint64_t at = segment_.block(other).device_operation.load(std::memory_order_acquire);
    const std::string held = segment_.stopped(other);
    if (at >= number && held.empty())
      continue;  // a device waits also for a rank that was stopped after its call
    out << separator << "rank " << segment_.name_of(other) << " (" << held << (held.empty() ? "" : "; ");
    separator = ", ";
    if (at == 0) {
      out << "has issued no device operation)";
    } else {
      out << "its last device operation is #" << at << ')';
    }
  }
  return std::move(out).str();
}

std::optional<Error> ShmPeerStatus::lost(std::uint64_t number) const {
  for (int other = 0; other < segment_.size(); ++other) {
    const auto loss = segment_.lost(other);
    const RankBlock& line = segment_.block(other);
    const bool left_in_peace = line.presence.load(std::memory_order_acquire) == Presence::left &&
                               line.device_operation.load(std::memory_order_acquire) >= number;
    if (loss && !left_in_peace) return loss;
  }
  return std::nullopt;
}

}  // namespace weft::detail
