#include "weft/core/recycled.hpp"

// The steps of take(bytes): round up to one of 26 sizes; pop a block from this thread's own list of that
// size; when that list is empty, move a batch of 16 blocks to it from the central list of the size; when that
// one is empty too, cut new blocks from memory of the heap, as many as there are of the size already.
// give_back() pushes to the thread's list, and first returns a batch to the central list when the thread has
// 32. Moving blocks in batches costs one lock for 16 calls. Sizes above 1 KiB have only the central list.
// Memory never goes back to the heap.

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <utility>

#include "core/base/spin_lock.hpp"

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

/// The bytes of a size by its number, and the number of the smallest size that holds so many bytes.
constexpr std::size_t bytes_of(std::size_t size) {
  return size < small_sizes ? (size + 1) * line : small_bytes << (size - small_sizes + 1);
}
constexpr std::size_t number_of(std::size_t bytes) {
  if (bytes <= small_bytes) return bytes == 0 ? 0 : (bytes - 1) / line;
  return small_sizes + static_cast<std::size_t>(std::bit_width((bytes - 1) / small_bytes)) - 1;
}

struct Block {
  Block* next;
};

/// Blocks of one size, linked to each other.
struct Batch {
  Block* first;
  int blocks;
};

/// The free blocks of one size that no thread has in its own list. Never destroyed: streams that other
/// statics own may outlive it.
class CentralList {
 public:
  /// Between 1 and `most` blocks.
  Batch take(std::size_t size, int most) {
    const std::lock_guard lock(lock_);
    Block* const first = one(size);
    Block* last = first;
    int taken = 1;
    for (; taken < most && (free_ != nullptr || fresh_ > 0); ++taken) last = last->next = one(size);
    last->next = nullptr;
    return {first, taken};
  }
  void give_back(Block* first, Block* last, std::size_t blocks) noexcept {
    const std::lock_guard lock(lock_);
    last->next = free_;
    free_ = first;
    free_blocks_ += blocks;
  }
  /// Makes new blocks until this list has `blocks`.
  void reserve(std::size_t size, std::size_t blocks) {
    const std::lock_guard lock(lock_);
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

  friend struct AroundForks;

  detail::SpinLock lock_;
  Block* free_ = nullptr;
  std::size_t free_blocks_ = 0;
  std::byte* fresh_at_ = nullptr;  // blocks that were never given out
  std::size_t fresh_ = 0;
  std::size_t made_ = 0;
};

/// A thread's own free blocks of a small size.
struct LocalList {
  static constexpr int most = 32;
  static constexpr int batch = most / 2;  // blocks that move to or from the central list at once

  Block* free;
  int count;
};

using Counts = std::array<std::atomic<std::uint64_t>, Recycled::sizes>;

void add(std::atomic<std::uint64_t>& count, std::uint64_t more) {  // only one thread writes it
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

/// The free lists of one thread. Has no constructor and no destructor, so that the thread may use it to its
/// very end.
struct ThreadCache {
  std::array<LocalList, small_sizes> lists;
  Counts taken;  // blocks of each size that the thread took
  ThreadCache* next;
  enum class State : std::uint8_t { unused, open, closed } state;
};

constinit std::array<CentralList, Recycled::sizes> central{};
constinit thread_local ThreadCache mine{};
constinit detail::SpinLock caches_lock;
constinit ThreadCache* caches = nullptr;  // of the threads that run
constinit Counts taken_before{};          // by threads that have ended

/// Returns a thread's blocks to the central lists when the thread ends.
struct CacheFlusher {
  void open() {
    const std::lock_guard lock(caches_lock);
    mine.state = ThreadCache::State::open;
    mine.next = std::exchange(caches, &mine);
  }
  ~CacheFlusher() {
    const std::lock_guard lock(caches_lock);
    mine.state = ThreadCache::State::closed;
    ThreadCache** at = &caches;
    while (*at != &mine) at = &(*at)->next;
    *at = mine.next;
    for (std::size_t size = 0; size < Recycled::sizes; ++size) add(taken_before[size], mine.taken[size]);
    for (std::size_t size = 0; size < small_sizes; ++size) {
      while (Block* const block = mine.lists[size].free) {
        mine.lists[size].free = block->next;
        central[size].give_back(block, block, 1);
      }
    }
  }
};
thread_local CacheFlusher flusher;

/// A child has the lists, and of the threads only the one that forked: no other may have been at the lists.
struct AroundForks {
  AroundForks() { pthread_atfork(take_locks, give_locks, begin_child); }
  static void take_locks() {
    caches_lock.lock();
    for (CentralList& list : central) list.lock_.lock();
  }
  static void give_locks() {
    for (CentralList& list : central) list.lock_.unlock();
    caches_lock.unlock();
  }
  static void begin_child() {
    const bool is_open = mine.state == ThreadCache::State::open;
    mine.next = nullptr;
    caches = is_open ? &mine : nullptr;
    give_locks();
  }
};
const AroundForks around_forks;

bool has_local_list(std::size_t size) {
  if (mine.state == ThreadCache::State::unused) flusher.open();
  return size < small_sizes && mine.state == ThreadCache::State::open;
}

void return_batch(std::size_t size) noexcept {
  LocalList& list = mine.lists[size];
  Block* const first = list.free;
  Block* last = first;
  for (int i = 1; i < LocalList::batch; ++i) last = last->next;
  list.free = last->next;
  list.count -= LocalList::batch;
  central[size].give_back(first, last, LocalList::batch);
}

/// The caller holds caches_lock.
std::uint64_t taken_of(std::size_t size) {
  std::uint64_t sum = taken_before[size];
  for (const ThreadCache* thread = caches; thread != nullptr; thread = thread->next)
    sum += thread->taken[size];
  return sum;
}

}  // namespace

void* Recycled::take(std::size_t bytes) {
  if (!recycles || bytes > most_bytes) return ::operator new (bytes, std::align_val_t{alignment});
  const std::size_t size = number_of(bytes);
  const bool local = has_local_list(size);
  add(mine.taken[size], 1);
  if (!local) return central[size].take(size, 1).first;
  LocalList& list = mine.lists[size];
  if (list.count == 0) {
    const auto [first, blocks] = central[size].take(size, LocalList::batch);
    list.free = first;
    list.count = blocks;
  }
  --list.count;
  return std::exchange(list.free, list.free->next);
}

void Recycled::give_back(void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  if (!recycles || bytes > most_bytes) return ::operator delete (memory, std::align_val_t{alignment});
  const std::size_t size = number_of(bytes);
  auto* const block = new (memory) Block{nullptr};
  if (!has_local_list(size)) return central[size].give_back(block, block, 1);
  LocalList& list = mine.lists[size];
  if (list.count == LocalList::most) return_batch(size);
  block->next = std::exchange(list.free, block);
  ++list.count;
}

RecycledCount::RecycledCount() {
  const std::lock_guard lock(caches_lock);
  for (std::size_t size = 0; size < Recycled::sizes; ++size) before_[size] = taken_of(size);
}

void RecycledCount::reserve() const {
  if (!recycles) return;
  const std::lock_guard lock(caches_lock);
  std::size_t in_caches = 0;
  for (const ThreadCache* thread = caches; thread != nullptr; thread = thread->next)
    in_caches += LocalList::most;
  for (std::size_t size = 0; size < Recycled::sizes; ++size)
    central[size].reserve(size, taken_of(size) - before_[size] + (size < small_sizes ? in_caches : 1));
}

}  // namespace weft
