#include "collectives/shm/shm_backend.hpp"

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
    const auto described = [](int rank, const Operation& one) {
      return text("rank ", rank, " issued ", one.text());
    };
    const bool they_first = other < segment_.rank();
    const std::string own = described(segment_.rank(), operation);
    const std::string other_one = described(other, *theirs);
    throw Error(ErrorKind::mismatch,
                text("ranks disagree: ", they_first ? other_one : own, ", ", they_first ? own : other_one),
                "issue the same operations in the same order with the same arguments on every rank");
  }
}

std::string ShmPeerStatus::behind(std::uint64_t number) const {
  std::ostringstream out;
  const char* separator = "";
  for (int other = 0; other < segment_.size(); ++other) {
    const std::uint64_t at = segment_.block(other).device_operation.load(std::memory_order_acquire);
    if (at >= number) continue;
    out << separator << "rank " << other;
    separator = ", ";
    if (at == 0) {
      out << " (has issued no device operation)";
    } else {
      out << " (its last device operation is #" << at << ")";
    }
  }
  return std::move(out).str();
}

std::optional<std::string> ShmPeerStatus::lost(std::uint64_t number) const {
  for (int other = 0; other < segment_.size(); ++other) {
    const auto reason = segment_.lost(other);
    const RankBlock& line = segment_.block(other);
    const bool left_in_peace = line.presence.load(std::memory_order_acquire) == Presence::left &&
                               line.device_operation.load(std::memory_order_acquire) >= number;
    if (reason && !left_in_peace) return reason;
  }
  return std::nullopt;
}

}  // namespace weft::detail
