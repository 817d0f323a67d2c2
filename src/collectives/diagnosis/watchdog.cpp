#include "collectives/diagnosis/watchdog.hpp"

#include <algorithm>
#include <sstream>

#include "collectives/diagnosis/agree.hpp"
#include "collectives/diagnosis/operation_words.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 5ms;
// An operation that waits longer is worth a message to all ranks. Well below what a person notices.
constexpr auto say_after = 250ms;
constexpr std::chrono::nanoseconds say_again_after = 1s;
constexpr std::chrono::nanoseconds for_each_rank = 10ms;
constexpr std::chrono::nanoseconds held_up_after = 100ms;
constexpr int silent_after = 3;  // words that did not come

constexpr std::string_view waits = "waits";
constexpr std::string_view waits_for_messages = "waits for messages";

void add(Watchdog::Late& late, int rank, const std::string& more) {
  late.ranks.push_back(rank);
  late.names += text(late.names.empty() ? "rank " : ", rank ", rank, more);
}

[[noreturn]] void refuse(SideChannel::Message message) {
  std::ranges::replace(message.body, '\n', ' ');
  throw Error(ErrorKind::internal,
              text("rank ", message.rank, " says '", message.body, "', which no rank does"));
}

}  // namespace

Watchdog::Watchdog(SideChannel& side_channel, const OperationLog& log, int rank, int ranks)
    : side_channel_(side_channel),
      log_(log),
      rank_(rank),
      ranks_(ranks),
      say_every_(std::max(say_again_after, for_each_rank * ranks)) {}

void Watchdog::look(const std::optional<Operation>& mine, Clock::time_point since, Clock::time_point now) {
  auto next = next_look_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < next ||
      !next_look_.compare_exchange_strong(next, (now + look_every).time_since_epoch().count()))
    return;
  const std::lock_guard lock(mutex_);
  listen(since, now);
  if (now - since < say_after || !is_time_to_say(mine, now)) return;
  posted_at_ = now;
  if (mine) posted_ = mine->number;
  side_channel_.post(mine ? text(waits, '\n', words_of(*mine)) : std::string(waits_for_messages));
}

// A rank that is held up itself, as by a machine that stands still, hears nothing meanwhile: that is no silence of the others.
void Watchdog::listen(Clock::time_point since, Clock::time_point now) {
  const auto away = now - std::exchange(listened_at_, now);
  if (since <= now - away && away > held_up_after) {
    for (auto& [rank, theirs] : waiting_) theirs.heard += away;
  }
  for (const SideChannel::Message& message : side_channel_.collect()) read(message, now);
  for (const auto& [rank, theirs] : waiting_) {
    if (theirs.operation) compare(rank, *theirs.operation);
  }
}

// Where two threads wait, the one in the later operation speaks.
bool Watchdog::is_time_to_say(const std::optional<Operation>& mine, Clock::time_point now) const {
  if (mine && mine->number > posted_) return true;
  return (!mine || mine->number == posted_) && now - posted_at_ >= say_every_;
}

void Watchdog::hear() {
  const std::lock_guard lock(mutex_);
  for (const SideChannel::Message& message : side_channel_.collect()) read(message, Clock::now());
}

void Watchdog::read(const SideChannel::Message& message, Clock::time_point now) {
  std::istringstream in(message.body);
  std::string what;
  std::getline(in, what);
  if (what == waits) {
    const auto operation = operation_from(in);
    if (!operation) refuse(message);
    waiting_[message.rank] = {operation, now};
    return;
  }
  if (what == waits_for_messages) {
    waiting_[message.rank] = {std::nullopt, now};
    return;
  }
  if (const auto failure = failure_in(message, rank_)) throw Error(*failure);
  refuse(message);
}

void Watchdog::compare(int rank, const Operation& theirs) const {
  const auto mine = log_.find(theirs.number);
  if (!mine || mine->agrees_with(theirs)) return;
  throw disagreement(rank_, *mine, rank, theirs);
}

Watchdog::Late Watchdog::late(std::uint64_t number, Clock::time_point since, Clock::time_point now) {
  Late silent;
  Late behind;
  if (now - since < 2 * say_after) return silent;
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto said = waiting_.find(rank);
    if (rank == rank_) continue;
    if (said == waiting_.end()) {
      add(silent, rank, "");
      continue;
    }
    const auto& [operation, heard] = said->second;
    const bool is_behind = operation && operation->number < number;
    if (now - heard > silent_after * say_every_) {
      // What it said of an earlier operation has come true since.
      const double seconds = std::chrono::duration<double>(now - heard).count();
      add(silent, rank, is_behind ? "" : text(" (not heard from for ", seconds, " s)"));
    } else if (is_behind) {
      add(behind, rank, text(" (it waits in #", operation->number, ")"));
    }
  }
  return silent.ranks.empty() ? behind : silent;
}

Error Watchdog::naming_late(const Error& error, std::uint64_t number, Clock::time_point since) {
  const auto now = Clock::now();
  try {
    const std::lock_guard lock(mutex_);
    listen(since, now);
  } catch (const Error& said) {
    if (said.kind() == ErrorKind::mismatch) return said.in(error.context());
  }
  const Late missing = late(number, since, now);
  if (missing.ranks.empty()) return error;
  const std::vector<int> named = ranks_in(error.problem());
  const bool are_late = std::ranges::all_of(
      named, [&](int rank) { return std::ranges::find(missing.ranks, rank) != missing.ranks.end(); });
  if (are_late && !named.empty() && named.size() >= missing.ranks.size()) return error;
  const double waited = std::chrono::duration<double>(now - since).count();
  return Error(error.kind(),
               are_late ? text(error.problem(), "; not heard from: ", missing.names)
                        : text("waited ", waited, " s for ", missing.names),
               error.advice(), error.context());
}

void Watchdog::give_up(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_given_up_, true)) return;
  tell_the_others(rank_, [&] { side_channel_.post(words_of_failure(error)); });
}

}  // namespace weft::detail
