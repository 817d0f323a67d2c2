#include "collectives/diagnosis/watchdog.hpp"

#include <algorithm>
#include <sstream>

#include "collectives/diagnosis/operation_words.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 5ms;
// An operation that waits longer is worth a message to all ranks. Well below what a person notices.
constexpr auto say_after = 250ms;

constexpr std::string_view waits = "waits";
constexpr std::string_view gave_up = "gave up";

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
  side_channel_.post(text(waits, '\n', words_of(*mine)));
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
    const auto operation = operation_from(in);
    if (!operation) refuse(message);
    waiting_[message.rank] = *operation;
    return;
  }
  ErrorKind kind{};
  if (what != gave_up || !take(in, kind, ErrorKind::internal)) refuse(message);
  std::string problem;
  in.ignore();
  std::getline(in, problem);
  throw failure_of(message.rank, kind, problem);
}

void Watchdog::compare(int rank, const Operation& theirs) const {
  const auto mine = log_.find(theirs.number);
  if (!mine || mine->agrees_with(theirs)) return;
  throw disagreement(rank_, *mine, rank, theirs);
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
