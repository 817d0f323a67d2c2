#include "collectives/diagnosis/watchdog.hpp"

#include <algorithm>
#include <sstream>

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 5ms;
// An operation that waits longer is worth a message to all ranks. Well below what a person notices.
constexpr auto say_after = 250ms;

constexpr std::string_view waits = "waits";
constexpr std::string_view gave_up = "gave up";

std::string said(const Operation& operation) {
  return text(waits, '\n', operation.number, ' ', static_cast<int>(operation.kind), ' ', operation.count, ' ',
              static_cast<int>(operation.dtype), ' ', static_cast<int>(operation.op), ' ', operation.root);
}

/// An enumerator up to `last`, by its number.
template <class T>
bool take(std::istringstream& in, T& value, T last) {
  int number = 0;
  if (!(in >> number) || number < 0 || number > static_cast<int>(last)) return false;
  value = static_cast<T>(number);
  return true;
}

std::optional<Operation> heard(std::istringstream& in) {
  Operation operation;
  const bool is_whole = in >> operation.number && take(in, operation.kind, Collective::barrier) &&
                        in >> operation.count && take(in, operation.dtype, DataType::u8) &&
                        take(in, operation.op, ReduceOp::avg) && in >> operation.root;
  return is_whole ? std::optional(operation) : std::nullopt;
}

[[noreturn]] void refuse(SideChannel::Message message) {
  std::ranges::replace(message.body, '\n', ' ');
  throw Error(ErrorKind::internal,
              text("rank ", message.rank, " says '", message.body, "', which no rank does"));
}

}  // namespace

void Watchdog::look(const std::optional<Operation>& mine, Clock::time_point since) {
  const auto now = Clock::now();
  auto next = next_look_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < next ||
      !next_look_.compare_exchange_strong(next, (now + look_every).time_since_epoch().count()))
    return;
  const std::lock_guard lock(mutex_);
  for (const SideChannel::Message& message : side_channel_.collect()) read(message);
  for (const auto& [rank, theirs] : waiting_) compare(rank, theirs);
  if (!mine || now - since < say_after || mine->number <= posted_) return;
  posted_ = mine->number;
  side_channel_.post(said(*mine));
}

void Watchdog::hear() {
  const std::lock_guard lock(mutex_);
  for (const SideChannel::Message& message : side_channel_.collect()) read(message);
}

void Watchdog::read(const SideChannel::Message& message) {
  std::istringstream in(message.body);
  std::string what;
  std::getline(in, what);
  if (what == waits) {
    const auto operation = heard(in);
    if (!operation) refuse(message);
    waiting_[message.rank] = *operation;
    return;
  }
  ErrorKind kind{};
  if (what != gave_up || !take(in, kind, ErrorKind::internal)) refuse(message);
  std::string problem;
  in.ignore();
  std::getline(in, problem);
  // A mismatch has two sides, and says so itself; with anything else, that rank began.
  const bool is_mutual = kind == ErrorKind::mismatch;
  throw Error(is_mutual ? ErrorKind::mismatch : ErrorKind::peer_lost,
              is_mutual ? problem : text("rank ", message.rank, " failed: ", problem),
              "its own message says more");
}

void Watchdog::compare(int rank, const Operation& theirs) const {
  const auto mine = log_.find(theirs.number);
  if (!mine || mine->agrees_with(theirs)) return;
  const bool they_first = rank < rank_;
  const auto described = [](int one, const Operation& operation) {
    return text("rank ", one, " issued ", operation.text());
  };
  const std::string first = they_first ? described(rank, theirs) : described(rank_, *mine);
  const std::string second = they_first ? described(rank_, *mine) : described(rank, theirs);
  throw Error(ErrorKind::mismatch, text("ranks disagree: ", first, ", ", second),
              "issue the same operations in the same order on every rank");
}

std::string Watchdog::late(std::uint64_t number, int ranks, Clock::time_point since) {
  std::string names;
  if (Clock::now() - since < 2 * say_after) return names;
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto said = waiting_.find(rank);
    if (rank == rank_ || (said != waiting_.end() && said->second.number >= number)) continue;
    names += text(names.empty() ? "rank " : ", rank ", rank);
  }
  return names;
}

void Watchdog::give_up(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_given_up_, true)) return;
  try {
    side_channel_.post(text(gave_up, '\n', static_cast<int>(error.kind()), ' ', error.problem()));
  } catch (...) {  // NOLINT(bugprone-empty-catch): the others hear at their deadline
  }
}

}  // namespace weft::detail
