#include "collectives/network/engine/wire_status.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "collectives/diagnosis/agree.hpp"
#include "collectives/diagnosis/operation_words.hpp"
#include "collectives/network/engine/wire.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t remembered = 1024;
constexpr auto say_when_stuck = 250ms;
constexpr std::chrono::nanoseconds say_every = 1s;
constexpr std::chrono::nanoseconds for_each_rank = 10ms;
constexpr int min_interval_ratio =
    20;                          // the pause after a word is at least twenty times as long as sending it took
constexpr int silent_after = 3;  // words that did not come
constexpr int max_interval_ratio =
    2;  // and at most twice the least pause, so that peers can tell silence from a slow sender

constexpr std::string_view is_at = "at";
constexpr std::string_view left = "left";

/// FNV-1a over what ranks have to agree in.
std::uint64_t history_of(std::uint64_t before, const Operation& operation) {
  constexpr std::uint64_t prime = 0x100000001b3;
  std::uint64_t hash = before;
  for (const auto part :
       {static_cast<std::uint64_t>(operation.kind), static_cast<std::uint64_t>(operation.count),
        static_cast<std::uint64_t>(operation.dtype), static_cast<std::uint64_t>(operation.op),
        static_cast<std::uint64_t>(operation.root), operation.number})
    hash = (hash ^ part) * prime;
  return hash;
}

/// Without its memory, which may end before.
Operation plain(const Operation& operation) {
  return {.kind = operation.kind,
          .number = operation.number,
          .count = operation.count,
          .dtype = operation.dtype,
          .op = operation.op,
          .root = operation.root};
}

}  // namespace

WirePeerStatus::WirePeerStatus(SideChannel& channel, GroupWire& wire, std::vector<bool> are_seen)
    : channel_(channel),
      wire_(wire),
      rank_(wire.rank()),
      are_seen_(std::move(are_seen)),
      least_between_(std::max(say_every, for_each_rank * wire.size())),
      between_(least_between_) {}

WirePeerStatus::~WirePeerStatus() {
  if (is_used_ && !has_given_up_) tell_the_others(rank_, [&] { channel_.post(text(left, '\n', last_)); });
}

void WirePeerStatus::issued(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  is_used_ = true;
  if (issued_.empty()) issued_.resize(remembered);
  const Issued* before = find(last_);
  const std::uint64_t history = history_of(before != nullptr ? before->history : 0, operation);
  issued_[operation.number % remembered] = {plain(operation), history};
  last_ = operation.number;
}

const WirePeerStatus::Issued* WirePeerStatus::find(std::uint64_t number) const {
  if (number == 0 || issued_.empty()) return nullptr;
  const Issued& there = issued_[number % remembered];
  return there.operation.number == number ? &there : nullptr;
}

// What was heard has been compared already.
void WirePeerStatus::compare(const Operation&) const {
  const std::lock_guard lock(mutex_);
  if (disagreement_) throw Error(*disagreement_);
}

std::string WirePeerStatus::behind(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  std::ostringstream out;
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (are_seen_[static_cast<std::size_t>(rank)]) continue;
    const bool is_silent =
        peer.is_active && !peer.has_left && now - peer.heard > silent_after * least_between_;
    if (peer.number >= number && !is_silent) continue;
    out << (out.tellp() > 0 ? ", rank " : "rank ") << rank << " (";
    if (is_silent) {
      out << "not heard from for " << std::chrono::duration<double>(now - peer.heard).count()
          << " s, when its last device operation was #" << peer.number << ')';
    } else if (peer.number == 0) {
      out << "has issued no device operation)";
    } else {
      out << "its last device operation is #" << peer.number << ')';
    }
  }
  return std::move(out).str();
}

std::optional<Error> WirePeerStatus::lost(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  for (const Loss& loss : losses_) {
    if (!loss.has_left || loss.number < number) return loss.error;
  }
  return std::nullopt;
}

void WirePeerStatus::tell(bool is_active, Clock::time_point now) {
  try {
    const auto heard = channel_.collect();
    const auto gone = wire_.losses();
    std::string message;
    {
      const std::lock_guard lock(mutex_);
      is_used_ = true;
      if (peers_.empty()) peers_.resize(are_seen_.size(), {.heard = now});
      for (const SideChannel::Message& one : heard) hear(one, now);
      for (const auto& [rank, how] : gone) {
        if (!peers_[static_cast<std::size_t>(rank)].has_left)
          lose(rank, lost_error(text("rank ", rank, " is gone: ", how)));
      }
      if (!heard.empty() || std::exchange(compared_, last_) != last_) {
        for (std::size_t rank = 0; rank < peers_.size(); ++rank)
          compare_what_was_said(static_cast<int>(rank), peers_[rank]);
      }
      if (is_time_to_say(is_active, now)) message = word();
    }
    if (!message.empty()) say(message);
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    lose(rank_, error);
  }
}

// Hundreds of ranks on few cores would else be busy with nothing but words, and so have ever more to say before they come to the end.
void WirePeerStatus::say(const std::string& message) {
  const auto before = Clock::now();
  channel_.post(message);
  const std::chrono::nanoseconds took = Clock::now() - before;
  const std::lock_guard lock(mutex_);
  between_ = std::clamp(min_interval_ratio * took, least_between_, max_interval_ratio * least_between_);
}

/// What a rank says of itself.
std::string WirePeerStatus::word() const {
  const Issued* mine = find(last_);
  const Issued nothing;
  return text(is_at, '\n', said_active_ ? 1 : 0, ' ', (mine != nullptr ? mine : &nothing)->history, ' ',
              words_of((mine != nullptr ? mine : &nothing)->operation));
}

bool WirePeerStatus::is_time_to_say(bool is_active, Clock::time_point now) {
  if (std::exchange(seen_, last_) != last_) moved_ = now;
  const bool falls_idle = !is_active && (said_active_ || said_ != last_);
  const bool is_stuck = is_active && said_ != last_ && now - moved_ >= say_when_stuck;
  // While ranks connect none has issued anything, and each would send that to each again and again.
  const bool is_due = is_active && last_ > 0 && (!said_at_ || now - *said_at_ >= between_);
  if (!falls_idle && !is_stuck && !is_due) return false;
  said_ = last_;
  said_at_ = now;
  said_active_ = is_active;
  return true;
}

void WirePeerStatus::hear(const SideChannel::Message& message, Clock::time_point now) {
  std::istringstream in(message.body);
  std::string what;
  std::getline(in, what);
  Peer& peer = peers_[static_cast<std::size_t>(message.rank)];
  peer.heard = now;
  if (what == is_at) {
    int is_active = 0;
    Issued said;
    in >> is_active >> said.history;
    if (const auto operation = operation_from(in)) {
      said.operation = *operation;
      peer.is_active = is_active != 0;
      peer.number = operation->number;
      peer.said = said;
    }
    return;
  }
  if (what == left) {
    in >> peer.number;
    peer.has_left = true;
    losses_.push_back(
        {message.rank, peer.number, true,
         left_error(text("rank ", message.rank, " has left after its device operation #", peer.number))});
    return;
  }
  if (const auto failure = failure_in(message, rank_)) lose(message.rank, *failure);
}

void WirePeerStatus::lose(int rank, Error error) {
  const bool is_known =
      std::ranges::any_of(losses_, [&](const Loss& loss) { return loss.rank == rank && !loss.has_left; });
  if (!is_known) losses_.push_back({rank, 0, false, std::move(error)});
}

void WirePeerStatus::compare_what_was_said(int rank, Peer& peer) {
  if (!peer.said || peer.number > last_ || disagreement_) return;
  const Issued said = *std::exchange(peer.said, std::nullopt);
  const Issued* mine = find(peer.number);
  if (mine == nullptr) return;  // none, or too long ago
  if (!mine->operation.agrees_with(said.operation)) {
    disagreement_ = disagreement(rank_, mine->operation, rank, said.operation);
  } else if (mine->history != said.history) {
    disagreement_ =
        Error(ErrorKind::mismatch,
              text("ranks disagree: rank ", std::min(rank, rank_), " and rank ", std::max(rank, rank_),
                   " issued different operations before ", mine->operation.text()),
              "issue the same operations in the same order with the same arguments on every rank; their "
              "flight records show them");
  }
}

void WirePeerStatus::give_up(const Error& error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!is_used_ || std::exchange(has_given_up_, true)) return;
  }
  tell_the_others(rank_, [&] { channel_.post(words_of_failure(error)); });
}

}  // namespace weft::detail
