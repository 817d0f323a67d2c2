#include "collectives/diagnosis/operation_log.hpp"

#include <algorithm>

#include "core/base/strings.hpp"
#include "core/streams/due_calls.hpp"

namespace weft::detail {
namespace {

std::int64_t now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::array sequences{"host", "device", "group"};
constexpr std::array states{"issued", "begun", "done", "failed"};

}  // namespace

OperationLog::OperationLog(std::string name, std::vector<int> ranks, int rank)
    : name_(std::move(name)), ranks_(std::move(ranks)), rank_(rank) {}

void OperationLog::mark(std::uint64_t place, std::atomic<std::int64_t> Slot::*when, State state) {
  Slot& slot = slots_[place % slots_.size()];
  if (slot.place.load(std::memory_order_relaxed) != place) return;  // so much was issued since
  (slot.*when).store(now(), std::memory_order_relaxed);
  slot.state.store(state, std::memory_order_relaxed);
}

// The thread that issues looks at the oldest only, so that many in flight cost no more than one.
void OperationLog::handed_over(std::uint64_t place, Event event) {
  const DueCalls due;
  const std::lock_guard lock(flights_mutex_);
  while (!flights_.empty() && is_over(flights_.front())) flights_.pop_front();
  flights_.push_back({place, std::move(event)});
}

void OperationLog::settle_flights() const {
  const DueCalls due;
  const std::lock_guard lock(flights_mutex_);
  std::erase_if(flights_, [this](const Flight& flight) { return is_over(flight); });
}

bool OperationLog::is_over(const Flight& flight) const {
  if (!flight.event.done()) return false;
  Slot& slot = slots_[flight.place % slots_.size()];
  if (slot.place.load(std::memory_order_relaxed) == flight.place)
    slot.state.store(flight.event.error() ? State::failed : State::done, std::memory_order_relaxed);
  return true;
}

std::optional<OperationLog::Entry> OperationLog::read(std::uint64_t place) const {
  const Slot& slot = slots_[place % slots_.size()];
  if (slot.place.load(std::memory_order_acquire) != place) return std::nullopt;
  const std::uint64_t what = slot.what.load(std::memory_order_acquire);
  Entry entry{.sequence = static_cast<Sequence>(what >> 24 & 0xff),
              .operation = {.kind = static_cast<Collective>(what & 0xff),
                            .number = slot.number.load(std::memory_order_acquire),
                            .count = slot.count.load(std::memory_order_acquire),
                            .dtype = static_cast<DataType>(what >> 8 & 0xff),
                            .op = static_cast<ReduceOp>(what >> 16 & 0xff),
                            .root = static_cast<int>(what >> 32)},
              .state = slot.state.load(std::memory_order_acquire),
              .issued = slot.issued.load(std::memory_order_acquire),
              .begun = slot.begun.load(std::memory_order_acquire),
              .ended = slot.ended.load(std::memory_order_acquire)};
  if (slot.place.load(std::memory_order_acquire) != place) return std::nullopt;
  return entry;
}

std::optional<Operation> OperationLog::find(std::uint64_t number) const {
  const std::uint64_t last = last_.load(std::memory_order_acquire);
  for (std::uint64_t back = 0; back < std::min<std::uint64_t>(last, slots_.size()); ++back) {
    const auto entry = read(last - back);
    if (entry && entry->sequence == Sequence::host && entry->operation.number == number)
      return entry->operation;
  }
  return std::nullopt;
}

OperationLog::Totals& OperationLog::Totals::operator+=(const Totals& more) {
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    operations[kind] += more.operations[kind];
    bytes[kind] += more.bytes[kind];
  }
  return *this;
}

OperationLog::Totals OperationLog::totals() const {
  Totals result;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    result.operations[kind] = operations_[kind].load(std::memory_order_relaxed);
    result.bytes[kind] = bytes_[kind].load(std::memory_order_relaxed);
  }
  return result;
}

// An operation without a time of issue ended within its call, or is being entered right now.
std::array<OperationLog::Progress, 3> OperationLog::progress() const {
  settle_flights();
  std::array<Progress, 3> result{};
  const std::uint64_t last = last_.load(std::memory_order_acquire);
  for (std::uint64_t back = 0; back < std::min<std::uint64_t>(last, slots_.size()); ++back) {
    const auto entry = read(last - back);
    if (!entry) continue;
    Progress& one = result[static_cast<std::size_t>(entry->sequence)];
    one.issued = std::max(one.issued, entry->operation.number);
    const bool is_under_way = entry->state == State::issued || entry->state == State::begun;
    if (!is_under_way || entry->issued == 0) continue;
    ++one.under_way;
    if (one.oldest_since == 0 || entry->issued < one.oldest_since) one.oldest_since = entry->issued;
  }
  return result;
}

std::string OperationLog::json() const {
  settle_flights();
  std::ostringstream out;
  out << "{\"name\":" << json_string(name_) << ",\"ranks\":[";
  for (std::size_t i = 0; i < ranks_.size(); ++i) out << (i == 0 ? "" : ",") << ranks_[i];
  out << "],\"rank\":" << rank_ << ",\"operations\":[";
  const std::uint64_t last = last_.load(std::memory_order_acquire);
  const std::uint64_t first = last < slots_.size() ? 1 : last - slots_.size() + 1;
  const char* separator = "";
  for (std::uint64_t place = first; place <= last; ++place) {
    const auto entry = read(place);
    if (!entry) continue;
    const bool is_group = entry->sequence == Sequence::group;
    const Operation& operation = entry->operation;
    out << std::exchange(separator, ",") << "\n {\"lane\":\""
        << sequences[static_cast<std::size_t>(entry->sequence)] << "\",\"number\":" << operation.number
        << ",\"kind\":\"" << (is_group ? "send/receive group" : name(operation.kind))
        << "\",\"count\":" << operation.count << ",\"dtype\":\"" << operation.dtype << "\",\"op\":\""
        << operation.op << "\",\"root\":" << operation.root << ",\"state\":\""
        << states[static_cast<std::size_t>(entry->state)] << "\",\"issued_ns\":" << entry->issued
        << ",\"begun_ns\":" << entry->begun << ",\"ended_ns\":" << entry->ended << '}';
  }
  out << "]}";
  return std::move(out).str();
}

}  // namespace weft::detail
