#include "collectives/algorithms/shared_ground.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

std::size_t lines_bytes(int size) {
  return static_cast<std::size_t>(size) * sizeof(Line);
}
std::size_t channels_bytes(int size) {
  return static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * sizeof(Channel);
}

}  // namespace

std::size_t SharedGround::bytes_for(int size) {
  return lines_bytes(size) + channels_bytes(size) +
         static_cast<std::size_t>(size) * Line::slots * (small_bytes + 2 * staging_bytes);
}

SharedGround::SharedGround(int rank, int size, std::shared_ptr<SharedMapping> memory,
                           std::chrono::nanoseconds timeout, int cores)
    : rank_(rank),
      size_(size),
      memory_(std::move(memory)),
      lines_(reinterpret_cast<Line*>(memory_->base())),
      small_(memory_->base() + lines_bytes(size) + channels_bytes(size)),
      staging_(small_ + static_cast<std::size_t>(size) * Line::slots * small_bytes),
      timeout_(timeout),
      crowded_(cores < size),
      known_completed_(static_cast<std::size_t>(size)) {
  // Zeroed memory is a valid state of every atomic here; only the own line is touched, so nobody's arrival is
  // overwritten.
  line(rank).presence.store(Presence::here, std::memory_order_release);
  engaged_.reserve(2 * Line::slots);  // collectives, and as many groups of messages as mostly are under way
  scratch_.reserve(static_cast<std::size_t>(size));
}

SharedGround::~SharedGround() {
  Presence expected = Presence::here;
  line(rank_).presence.compare_exchange_strong(expected, Presence::left, std::memory_order_release);
}

Channel& SharedGround::channel(int from, int to) const {
  return reinterpret_cast<Channel*>(memory_->base() + lines_bytes(size_))[from * size_ + to];
}

std::byte* SharedGround::staging_in(int rank, std::uint64_t number) const {
  return staging_ + (static_cast<std::size_t>(rank) * Line::slots + number % Line::slots) * 2 * staging_bytes;
}

std::byte* SharedGround::staging_out(int rank, std::uint64_t number) const {
  return staging_in(rank, number) + staging_bytes;
}

bool SharedGround::slot_is_free(std::uint64_t number) {
  if (number <= Line::slots) return true;
  const std::uint64_t before = number - Line::slots;
  if (!is_through(before)) return false;
  for (int other = 0; other < size_; ++other) {
    std::uint64_t& known = known_completed_[static_cast<std::size_t>(other)];
    if (other == rank_ || known >= before) continue;
    known = line(other).completed.load(std::memory_order_acquire);
    if (known < before) return false;
  }
  return true;
}

// Operations on different streams end in any order; what is told is up to where all have.
void SharedGround::complete(std::uint64_t number) {
  completed_beyond_ |= std::uint64_t{1} << (number - completed_ - 1);
  while ((completed_beyond_ & 1) != 0) {
    completed_beyond_ >>= 1;
    ++completed_;
  }
  line(rank_).completed.store(completed_, std::memory_order_release);
  // The next card is owned by this core again before it is written.
  __builtin_prefetch(&card(rank_, number + 1), 1);
}

void Engagement::carry_on() noexcept {
  if (over()) return;
  try {
    if (!advance()) return;
  } catch (...) {
    error_ = std::current_exception();
  }
  over_.store(true, std::memory_order_release);
}

void SharedGround::engage(Engagement& work) {
  const std::lock_guard lock(turn_);
  engaged_.push_back(&work);
}

void SharedGround::dismiss(Engagement& work) noexcept {
  const std::lock_guard lock(turn_);
  std::erase(engaged_, &work);
}

void SharedGround::carry_on() {
  bool waits = true;
  if (const auto alone = try_alone()) {
    for (Engagement* work : engaged_) work->carry_on();
    const auto ended = std::erase_if(engaged_, [](const Engagement* work) { return work->over(); });
    if (ended > 0 && line(rank_).bell.asleep.load(std::memory_order_relaxed) != 0) wake(rank_);
    waits = !engaged_.empty();
  }
  if (waits && crowded_) give_way();
}

// Who rings stores first and then asks who sleeps; who sleeps says so first and then looks once more. A
// processor may still do a ringer's two in the other order, for a fence would cost every meeting more than
// the rare sleeper gains: such a ring is lost, and the sleeper wakes when its time is over.
void SharedGround::rest(Engagement& work, std::chrono::microseconds at_most) {
  Bell& bell = line(rank_).bell;
  bell.asleep.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t rung = bell.rung.load(std::memory_order_acquire);
  carry_on();
  if (!work.over()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
    const timespec time{seconds.count(), std::chrono::nanoseconds(at_most - seconds).count()};
    syscall(SYS_futex, &bell.rung, FUTEX_WAIT, rung, &time, nullptr, 0);
  }
  bell.asleep.fetch_sub(1, std::memory_order_relaxed);
  if (const auto alone = try_alone()) {
    for (Engagement* one : engaged_) one->rested();
  }
}

void SharedGround::wake(int rank) const {
  Bell& bell = line(rank).bell;
  bell.rung.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &bell.rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::optional<std::string> SharedGround::lost(int rank) const {
  const Line& other = line(rank);
  switch (other.presence.load(std::memory_order_acquire)) {
    case Presence::failed:
      return text("rank ", name_of(rank), " failed: ", other.reason);
    case Presence::left:
      return text("rank ", name_of(rank), " has left the communicator");
    case Presence::expected:
    case Presence::here:
      break;
  }
  return died(rank);
}

void SharedGround::expect_present(const std::function<bool(int rank)>& here) const {
  for (int other = 0; other < size_; ++other) {
    // In this order: a rank may arrive, finish and leave between the two looks, and that is no loss.
    const auto reason = lost(other);
    if (reason && !here(other)) throw Error(ErrorKind::peer_lost, *reason);
  }
}

std::string SharedGround::missing(const std::function<bool(int rank)>& here) const {
  std::ostringstream out;
  const char* separator = "";
  for (int other = 0; other < size_; ++other) {
    if (here(other)) continue;
    out << separator << "rank " << name_of(other);
    separator = ", ";
    const std::uint64_t at = line(other).operation.load(std::memory_order_relaxed);
    if (at == 0) {
      out << " (has issued no collective)";
    } else {
      out << " (its last collective is #" << at << ")";
    }
  }
  return std::move(out).str();
}

void SharedGround::give_up(const std::string& reason) noexcept {
  Line& own = line(rank_);
  if (own.presence.load(std::memory_order_relaxed) != Presence::here) return;
  const std::size_t length = std::min(reason.size(), sizeof(own.reason) - 1);
  std::memcpy(own.reason, reason.data(), length);
  own.reason[length] = '\0';
  own.presence.store(Presence::failed, std::memory_order_release);
  ring();
}

}  // namespace weft::detail
