#include "weft/core/recycled.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>

#include "weft/core/backoff.hpp"

namespace weft {
namespace {

constexpr std::size_t line = Recycled::alignment;
constexpr std::size_t small_sizes = 16;  // multiples of a line; the others are powers of two
constexpr std::size_t small_bytes = small_sizes * line;
constexpr std::size_t most_bytes = small_bytes << (Recycled::sizes - small_sizes);

#if defined(__SANITIZE_ADDRESS__)
constexpr bool recycles = false;
#elif defined(__has_feature)
constexpr bool recycles = !__has_feature(address_sanitizer);
#else
constexpr bool recycles = true;
#endif

/// A size by its number, and its number by bytes.
constexpr std::size_t bytes_of(std::size_t size) {
  return size < small_sizes ? (size + 1) * line : small_bytes << (size - small_sizes + 1);
}
constexpr std::size_t number_of(std::size_t bytes) {
  if (bytes <= small_bytes) return bytes == 0 ? 0 : (bytes - 1) / line;
  return small_sizes + static_cast<std::size_t>(std::bit_width((bytes - 1) / small_bytes)) - 1;
}

/// Is nearly always free and held for a few lines: a mutex would cost more than all the rest.
class Latch {
 public:
  void lock() {
    for (Backoff backoff; taken_.exchange(true, std::memory_order_acquire);) backoff.pause();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

struct Block {
  Block* next;
};

/// Blocks of one size, chained.
struct Lot {
  Block* first;
  int blocks;
};

/// The blocks of one size that no thread keeps. Never destroyed: streams of other statics may outlive it.
class Shelf {
 public:
  /// Up to `most` of them, one at least.
  Lot take(std::size_t size, int most) {
    const std::lock_guard lock(latch_);
    Block* const first = one(size);
    Block* last = first;
    int taken = 1;
    for (; taken < most && (free_ != nullptr || fresh_ > 0); ++taken) last = last->next = one(size);
    last->next = nullptr;
    return {first, taken};
  }
  void give_back(Block* first, Block* last, std::size_t blocks) noexcept {
    const std::lock_guard lock(latch_);
    last->next = free_;
    free_ = first;
    free_blocks_ += blocks;
  }
  /// So many are here.
  void reserve(std::size_t size, std::size_t blocks) {
    const std::lock_guard lock(latch_);
    if (blocks <= free_blocks_ + fresh_) return;
    for (; fresh_ > 0; --fresh_, ++free_blocks_) free_ = new (next_fresh(size)) Block{free_};
    make(size, blocks - free_blocks_);
  }

 private:
  Block* one(std::size_t size) {
    if (free_ != nullptr) {
      --free_blocks_;
      return std::exchange(free_, free_->next);
    }
    if (fresh_ == 0) make(size, made_);
    --fresh_;
    return new (next_fresh(size)) Block{nullptr};
  }
  std::byte* next_fresh(std::size_t size) { return std::exchange(fresh_at_, fresh_at_ + bytes_of(size)); }
  void make(std::size_t size, std::size_t blocks) {
    constexpr std::size_t least_bytes = std::size_t{64} << 10;
    blocks = std::max({blocks, least_bytes / bytes_of(size), std::size_t{1}});
    fresh_at_ = static_cast<std::byte*>(::operator new (blocks* bytes_of(size), std::align_val_t{line}));
    fresh_ = blocks;
    made_ += blocks;
  }

  Latch latch_;
  Block* free_ = nullptr;
  std::size_t free_blocks_ = 0;
  std::byte* fresh_at_ = nullptr;  // those that nobody has had yet
  std::size_t fresh_ = 0;
  std::size_t made_ = 0;
};

/// A thread's own blocks of a small size.
struct Pocket {
  static constexpr int most = 32;
  static constexpr int lot = most / 2;  // that goes to the shelf or comes from there at once

  Block* free;
  int count;
};

using Counts = std::array<std::atomic<std::uint64_t>, Recycled::sizes>;

void add(std::atomic<std::uint64_t>& count, std::uint64_t more) {  // of one thread
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

/// Without constructor and destructor, so that a thread may use it to its very end.
struct Thread {
  std::array<Pocket, small_sizes> pockets;
  Counts taken;  // by it, of each size
  Thread* next;
  enum class Pockets : std::uint8_t { unused, open, closed } state;
};

constinit std::array<Shelf, Recycled::sizes> shelves{};
constinit thread_local Thread mine{};
constinit Latch threads_latch;
constinit Thread* threads = nullptr;  // with pockets
constinit Counts taken_before{};      // by those that have ended

/// Empties a thread's pockets when it ends.
struct Emptier {
  void open() {
    const std::lock_guard lock(threads_latch);
    mine.state = Thread::Pockets::open;
    mine.next = std::exchange(threads, &mine);
  }
  ~Emptier() {
    const std::lock_guard lock(threads_latch);
    mine.state = Thread::Pockets::closed;
    Thread** at = &threads;
    while (*at != &mine) at = &(*at)->next;
    *at = mine.next;
    for (std::size_t size = 0; size < Recycled::sizes; ++size) add(taken_before[size], mine.taken[size]);
    for (std::size_t size = 0; size < small_sizes; ++size) {
      while (Block* const block = mine.pockets[size].free) {
        mine.pockets[size].free = block->next;
        shelves[size].give_back(block, block, 1);
      }
    }
  }
};
thread_local Emptier emptier;

bool has_pocket(std::size_t size) {
  if (mine.state == Thread::Pockets::unused) emptier.open();
  return size < small_sizes && mine.state == Thread::Pockets::open;
}

void put_back_a_lot(std::size_t size) noexcept {
  Pocket& pocket = mine.pockets[size];
  Block* const first = pocket.free;
  Block* last = first;
  for (int i = 1; i < Pocket::lot; ++i) last = last->next;
  pocket.free = last->next;
  pocket.count -= Pocket::lot;
  shelves[size].give_back(first, last, Pocket::lot);
}

/// With the latch of threads.
std::uint64_t taken_of(std::size_t size) {
  std::uint64_t sum = taken_before[size];
  for (const Thread* thread = threads; thread != nullptr; thread = thread->next) sum += thread->taken[size];
  return sum;
}

}  // namespace

void* Recycled::take(std::size_t bytes) {
  if (!recycles || bytes > most_bytes) return ::operator new (bytes, std::align_val_t{alignment});
  const std::size_t size = number_of(bytes);
  const bool pockets = has_pocket(size);
  add(mine.taken[size], 1);
  if (!pockets) return shelves[size].take(size, 1).first;
  Pocket& pocket = mine.pockets[size];
  if (pocket.count == 0) {
    const auto [first, blocks] = shelves[size].take(size, Pocket::lot);
    pocket.free = first;
    pocket.count = blocks;
  }
  --pocket.count;
  return std::exchange(pocket.free, pocket.free->next);
}

void Recycled::give_back(void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  if (!recycles || bytes > most_bytes) return ::operator delete (memory, std::align_val_t{alignment});
  const std::size_t size = number_of(bytes);
  auto* const block = new (memory) Block{nullptr};
  if (!has_pocket(size)) return shelves[size].give_back(block, block, 1);
  Pocket& pocket = mine.pockets[size];
  if (pocket.count == Pocket::most) put_back_a_lot(size);
  block->next = std::exchange(pocket.free, block);
  ++pocket.count;
}

RecycledCount::RecycledCount() {
  const std::lock_guard lock(threads_latch);
  for (std::size_t size = 0; size < Recycled::sizes; ++size) before_[size] = taken_of(size);
}

void RecycledCount::reserve() const {
  if (!recycles) return;
  const std::lock_guard lock(threads_latch);
  std::size_t in_pockets = 0;
  for (const Thread* thread = threads; thread != nullptr; thread = thread->next) in_pockets += Pocket::most;
  for (std::size_t size = 0; size < Recycled::sizes; ++size)
    shelves[size].reserve(size, taken_of(size) - before_[size] + (size < small_sizes ? in_pockets : 1));
}

}  // namespace weft
