#include "collectives/shm/shm_segment.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>

#include "collectives/diagnosis/operation_words.hpp"
#include "core/memory/per_process.hpp"
#include "core/streams/interruption.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

std::size_t blocks_bytes(int size) {
  return sizeof(SegmentHead) + sizeof(Departures) + static_cast<std::size_t>(size) * sizeof(RankBlock);
}
std::size_t channels_bytes(int size) {
  return static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * sizeof(Channel);
}

}  // namespace

std::size_t ShmSegment::bytes_for(int size) {
  return blocks_bytes(size) + channels_bytes(size) +
         static_cast<std::size_t>(size) * RankBlock::slots * (small_bytes + 2 * staging_bytes);
}

void ShmSegment::mark(const SharedMapping& memory, int size, std::uint64_t job) {
  *reinterpret_cast<SegmentHead*>(memory.base()) = {SegmentHead::right_magic, job, bytes_for(1), size};
}

void ShmSegment::expect(const SharedMapping& memory, int size, std::uint64_t job) {
  const SegmentHead& head = *reinterpret_cast<const SegmentHead*>(memory.base());
  const SegmentHead right{SegmentHead::right_magic, job, bytes_for(1), size};
  const auto differs = [](const char* what, auto there, auto here) {
    return Error(ErrorKind::mismatch, text("the shared memory of rank 0 has ", what, there, ", not ", here),
                 "start all ranks of a job together, with one build of weft and one number of ranks");
  };
  if (head.magic != right.magic) throw differs("the mark ", head.magic, right.magic);
  if (head.layout != right.layout) throw differs("blocks of bytes: ", head.layout, right.layout);
  if (head.ranks != right.ranks) throw differs("room for ranks: ", head.ranks, right.ranks);
  if (head.job != right.job) throw differs("the job number ", head.job, right.job);
}

ShmSegment::ShmSegment(int rank, int size, std::shared_ptr<SharedMapping> memory,
                       std::chrono::nanoseconds timeout, int cores)
    : rank_(rank),
      size_(size),
      memory_(std::move(memory)),
      departures_(*reinterpret_cast<Departures*>(memory_->base() + sizeof(SegmentHead))),
      blocks_(reinterpret_cast<RankBlock*>(memory_->base() + sizeof(SegmentHead) + sizeof(Departures))),
      small_(memory_->base() + blocks_bytes(size) + channels_bytes(size)),
      staging_(small_ + static_cast<std::size_t>(size) * RankBlock::slots * small_bytes),
      timeout_(timeout),
      crowded_(cores < size),
      generation_(process_generation()),
      known_completed_(static_cast<std::size_t>(size)) {
  // Zeroed memory is a valid state of every atomic here; only the own line is touched, so no peer's arrival
  // is overwritten.
  block(rank).presence.store(Presence::here, std::memory_order_release);
  // Collectives, and as many groups of messages as mostly are under way.
  pending_.reserve(2 * RankBlock::slots);
  scratch_.reserve(static_cast<std::size_t>(size));
}

ShmSegment::~ShmSegment() {
  if (takes_part()) depart(Presence::left);
}

bool ShmSegment::takes_part() const {
  return block(rank_).presence.load(std::memory_order_relaxed) == Presence::here &&
         generation_ == process_generation();
}

void ShmSegment::depart(Presence how) noexcept {
  block(rank_).presence.store(how, std::memory_order_release);
  departures_.ranks.fetch_add(1, std::memory_order_release);
}

Channel& ShmSegment::channel(int from, int to) const {
  return reinterpret_cast<Channel*>(memory_->base() + blocks_bytes(size_))[from * size_ + to];
}

std::byte* ShmSegment::staging_in(int rank, std::uint64_t number) const {
  return staging_ +
         (static_cast<std::size_t>(rank) * RankBlock::slots + number % RankBlock::slots) * 2 * staging_bytes;
}

std::byte* ShmSegment::staging_out(int rank, std::uint64_t number) const {
  return staging_in(rank, number) + staging_bytes;
}

bool ShmSegment::slot_is_free(std::uint64_t number) {
  if (number <= RankBlock::slots) return true;
  const std::uint64_t before = number - RankBlock::slots;
  if (!is_through(before)) return false;
  for (int other = 0; other < size_; ++other) {
    std::uint64_t& known = known_completed_[static_cast<std::size_t>(other)];
    if (other == rank_ || known >= before) continue;
    known = block(other).completed.load(std::memory_order_acquire);
    if (known < before) return false;
  }
  return true;
}

// Operations on different streams end in any order; peers are told the number up to which all have.
void ShmSegment::complete(std::uint64_t number) {
  completed_beyond_ |= std::uint64_t{1} << (number - completed_ - 1);
  while ((completed_beyond_ & 1) != 0) {
    completed_beyond_ >>= 1;
    ++completed_;
  }
  block(rank_).completed.store(completed_, std::memory_order_release);
  // This core owns the next slot's cache line again before it writes there.
  __builtin_prefetch(&op_slot(rank_, number + 1), 1);
}

void PendingOp::progress() noexcept {
  if (over()) return;
  try {
    if (!advance()) return;
  } catch (...) {
    error_ = std::current_exception();
  }
  over_.store(true, std::memory_order_release);
}

void ShmSegment::add_pending(PendingOp& work) {
  const std::lock_guard lock(lock_);
  pending_.push_back(&work);
}

void ShmSegment::remove_pending(PendingOp& work) noexcept {
  const std::lock_guard lock(lock_);
  std::erase(pending_, &work);
}

void ShmSegment::progress() {
  bool waits = true;
  if (const auto alone = try_lock()) {
    for (PendingOp* work : pending_) work->progress();
    const auto ended = std::erase_if(pending_, [](const PendingOp* work) { return work->over(); });
    if (ended > 0 && block(rank_).doorbell.asleep.load(std::memory_order_relaxed) != 0) wake(rank_);
    waits = !pending_.empty();
  }
  if (waits && crowded_) give_way();
}

// A ringer stores its progress and then reads who sleeps; a sleeper says that it sleeps and then looks once
// more. A processor may reorder the ringer's two accesses: a fence would cost every barrier phase more than
// the rare sleeper gains. Such a ring is lost, and the sleeper wakes when its time is up.
void ShmSegment::rest(PendingOp& work, std::chrono::microseconds at_most) {
  Doorbell& doorbell = block(rank_).doorbell;
  doorbell.asleep.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t rung = doorbell.rung.load(std::memory_order_acquire);
  progress();
  if (!work.over()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
    const timespec time{seconds.count(), std::chrono::nanoseconds(at_most - seconds).count()};
    syscall(SYS_futex, &doorbell.rung, FUTEX_WAIT, rung, &time, nullptr, 0);
  }
  doorbell.asleep.fetch_sub(1, std::memory_order_relaxed);
  if (const auto alone = try_lock()) {
    for (PendingOp* one : pending_) one->rested();
  }
}

void ShmSegment::wake(int rank) const {
  Doorbell& doorbell = block(rank).doorbell;
  doorbell.rung.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &doorbell.rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ShmSegment::await_ranks(Deadline deadline) const {
  for (int other = 0; other < size_; ++other) {
    const auto came = [&] {
      return block(other).presence.load(std::memory_order_acquire) != Presence::expected;
    };
    const auto look_and_sleep = [&](std::chrono::microseconds at_most) {
      const auto how = died(other);
      if (came()) return;  // in this order: it may have come and ended
      if (how) throw lost_error(*how);
      if (deadline.passed()) {
        throw Error(ErrorKind::timeout,
                    text("rank ", name_of(other), " did not map the node's memory within ",
                         deadline.allowed_seconds(), " s"),
                    "see whether that rank failed; WEFT_CONNECT_TIMEOUT sets how long to wait");
      }
      Backoff::sleep(at_most);
      Interruption::look();
    };
    for (Backoff backoff; !came();) backoff.pause(look_and_sleep);
  }
}

std::optional<Error> ShmSegment::lost(int rank) const {
  const RankBlock& other = block(rank);
  switch (other.presence.load(std::memory_order_acquire)) {
    case Presence::failed:
      return failure_of(name_of(rank_), name_of(rank), other.failure, other.reason);
    case Presence::left:
      return left_error(name_of(rank));
    case Presence::expected:
    case Presence::here:
      break;
  }
  auto how = died(rank);
  return how ? std::optional(lost_error(std::move(*how))) : std::nullopt;
}

void ShmSegment::expect_present(const std::function<bool(int rank)>& here) const {
  for (int other = 0; other < size_; ++other) {
    // In this order: a rank may arrive, finish and leave between the two looks, and that is no loss.
    const auto loss = lost(other);
    if (loss && !here(other)) throw Error(*loss);
  }
}

void ShmSegment::expect_present_or_through(std::uint64_t number, Ranks ranks) const {
  for (int rank = ranks.first; rank < ranks.end; ++rank) {
    const Presence presence = block(rank).presence.load(std::memory_order_acquire);
    if (presence == Presence::here || presence == Presence::expected || is_through(rank, number)) continue;
    throw lost(rank).value_or(left_error(name_of(rank)));
  }
}

std::string ShmSegment::missing(const std::function<bool(int rank)>& here) const {
  std::ostringstream out;
  const char* separator = "";
  for (int other = 0; other < size_; ++other) {
    if (here(other)) continue;
    out << separator << "rank " << name_of(other);
    separator = ", ";
    const std::string held = stopped(other);
    const std::uint64_t at = block(other).operation.load(std::memory_order_relaxed);
    out << " (" << held << (held.empty() ? "" : "; ");
    if (at == 0) {
      out << "has issued no collective)";
    } else {
      out << "its last collective is #" << at << ")";
    }
  }
  return std::move(out).str();
}

void ShmSegment::give_up(const Error& error) noexcept {
  if (!takes_part()) return;
  RankBlock& own = block(rank_);
  own.failure = error.kind();
  const std::string& reason = error.problem();
  const std::size_t length = std::min(reason.size(), sizeof(own.reason) - 1);
  std::memcpy(own.reason, reason.data(), length);
  own.reason[length] = '\0';
  depart(Presence::failed);
  ring();
}

}  // namespace weft::detail
