#include "collectives/algorithms/shared_bulletin.hpp"

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

void SharedBulletin::issued(const Operation& operation) {
  Line& own = ground_.line(ground_.rank());
  Posted& posted = own.posted[operation.number % Line::slots];
  posted.number.store(0, std::memory_order_release);
  posted.count.store(operation.count, std::memory_order_release);
  posted.what.store(packed(operation), std::memory_order_release);
  posted.number.store(operation.number, std::memory_order_release);
  own.device_operation.store(operation.number, std::memory_order_release);
}

void SharedBulletin::compare(const Operation& operation) const {
  for (int other = 0; other < ground_.size(); ++other) {
    const auto theirs = read(ground_.line(other).posted[operation.number % Line::slots]);
    if (!theirs || theirs->number != operation.number || theirs->agrees_with(operation)) continue;
    const auto described = [](int rank, const Operation& one) {
      return text("rank ", rank, " issued ", one.text());
    };
    const bool they_first = other < ground_.rank();
    const std::string own = described(ground_.rank(), operation);
    const std::string other_one = described(other, *theirs);
    throw Error(ErrorKind::mismatch,
                text("ranks disagree: ", they_first ? other_one : own, ", ", they_first ? own : other_one),
                "issue the same operations in the same order with the same arguments on every rank");
  }
}

std::string SharedBulletin::behind(std::uint64_t number) const {
  std::ostringstream out;
  const char* separator = "";
  for (int other = 0; other < ground_.size(); ++other) {
    const std::uint64_t at = ground_.line(other).device_operation.load(std::memory_order_acquire);
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

std::optional<std::string> SharedBulletin::lost(std::uint64_t number) const {
  for (int other = 0; other < ground_.size(); ++other) {
    const auto reason = ground_.lost(other);
    const Line& line = ground_.line(other);
    const bool left_in_peace = line.presence.load(std::memory_order_acquire) == Presence::left &&
                               line.device_operation.load(std::memory_order_acquire) >= number;
    if (reason && !left_in_peace) return reason;
  }
  return std::nullopt;
}

}  // namespace weft::detail
