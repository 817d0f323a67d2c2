#pragma once
// Handles: numbers in the form of pointers, each of one object in a table of its kind.
//
// A handle has its kind in 5 bits, its place in the table in 22, and in the others how often that place was given away before. So NULL, a
// handle that was freed, and one of another kind are seen without a look at memory that may be gone. Places are used again, and their memory
// is never given back. Looking one up takes no lock.
//
// Who frees a handle does not end an object that is in use: in a call that may block, which any thread may make (Pin), or in a call that this
// thread is in, below a function of the caller (Inside). It ends after that.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core/base/spin_lock.hpp"

namespace weft::c {

enum class Kind : std::uint8_t {
  none,
  world,
  communicator,
  stream,
  event,
  work,
  group,
  buffer,
  layout,
  reducer,
  zero,
  checkpointer
};
const char* words_of(Kind kind) noexcept;

static_assert(sizeof(void*) == 8, "a handle has 64 bits");

inline constexpr int pin_bits = 24;
inline constexpr std::uint64_t pins = (std::uint64_t{1} << pin_bits) - 1;

/// What a table has of each object, beside the object.
struct Place {
  /// How often it was given away, with the current one, and one more once that is freed; below these bits, how many pin it.
  std::atomic<std::uint64_t> state{std::uint64_t{1} << pin_bits};
  Place* next = nullptr;  ///< in the list of free ones, or of those that end later
  std::uint32_t index = 0;
  void (*end)(Place&) noexcept = nullptr;  ///< ends the object, and puts the place into the list of free ones
};

/// Takes a pin away. What was freed ends with its last one. @param times with which it was pinned
inline void unpin(Place& place, std::uint64_t times) noexcept {
  const std::uint64_t state = place.state.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if ((state & pins) == 0 && state >> pin_bits != times) place.end(place);
}

/// What each thread has.
struct OfThread {
  int calls = 0;           ///< that this thread is in, one below the other
  Place* later = nullptr;  ///< freed in them; end with the outermost
};
/// Two words of the initial memory of threads, which a library that is loaded later has a little of: reading them is then no call.
extern constinit thread_local OfThread of_thread [[gnu::tls_model("initial-exec")]];

/// While a call of this interface runs.
class Inside {
 public:
  Inside() noexcept : mine_(of_thread) { ++mine_.calls; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    if (--mine_.calls == 0 && mine_.later != nullptr) end_what_was_freed(mine_);
  }

 private:
  static void end_what_was_freed(OfThread& mine) noexcept;
  OfThread& mine_;
};

/// @throws Error (usage) that says what is wrong with a handle. @param argument its name in the call
[[noreturn]] void refuse(std::uint64_t handle, Kind wanted, const char* argument, std::uint64_t given_away);
[[noreturn]] void refuse_more(Kind kind);
/// How often a place of a kind's table was given away; 0 for one that there is not.
std::uint64_t times_given_away(Kind kind, std::uint64_t index) noexcept;

inline constexpr std::uint64_t places = std::uint64_t{1} << 22;  ///< of a table, at most

/// Held while the process forks, so that no child begins with a lock that nobody gives back.
void hold_at_fork(detail::SpinLock& lock);

template <class T, Kind kind>
class Table {
  struct Slot : Place {
    T* object() { return std::launder(reinterpret_cast<T*>(memory)); }
    alignas(T) std::byte memory[sizeof(T)];
  };
  static constexpr std::uint32_t of_a_block = 1024, blocks = places / of_a_block;
  using Block = std::array<Slot, of_a_block>;

 public:
  constexpr Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// @throws Error (system) where there are too many; std::bad_alloc
  void* add(T&& value) {
    Slot& slot = free_slot();
    new (slot.memory) T(std::move(value));
    const std::uint64_t times = slot.state.load(std::memory_order_relaxed) >> pin_bits;
    return reinterpret_cast<void*>(times << 27 | std::uint64_t{slot.index} << 5 |
                                   static_cast<std::uint64_t>(kind));
  }
  T& at(const void* handle, const char* argument) { return *slot_of(handle, argument).object(); }
  std::uint64_t times_given_away(std::uint64_t index) const noexcept {
    const Block* const block = blocks_[index / of_a_block].load(std::memory_order_acquire);
    return block == nullptr ? 0
                            : (*block)[index % of_a_block].state.load(std::memory_order_acquire) >> pin_bits;
  }
  void remove(void* handle, const char* argument) {
    Slot& slot = slot_of(handle, argument);
    const std::uint64_t bits = reinterpret_cast<std::uint64_t>(handle);
    OfThread& mine = of_thread;
    const std::uint64_t kept = mine.calls > 1 ? 1 : 0;  // for the call that this one is below
    std::uint64_t state = slot.state.load(std::memory_order_relaxed);
    do {
      if (state >> pin_bits != bits >> 27) refuse(bits, kind, argument, state >> pin_bits);
    } while (!slot.state.compare_exchange_weak(state, state + (std::uint64_t{1} << pin_bits) + kept,
                                               std::memory_order_acq_rel));
    if (kept != 0) {
      slot.next = std::exchange(mine.later, &slot);
    } else if ((state & pins) == 0) {
      slot.end(slot);
    }
  }

  /// An object that stays while this is there, whoever frees its handle.
  class Pin {
   public:
    Pin(Table& table, const void* handle, const char* argument)
        : slot_(table.slot_of(handle, argument)), times_(reinterpret_cast<std::uint64_t>(handle) >> 27) {
      std::uint64_t state = slot_.state.load(std::memory_order_relaxed);
      do {
        if (state >> pin_bits != times_)
          refuse(reinterpret_cast<std::uint64_t>(handle), kind, argument, state >> pin_bits);
      } while (!slot_.state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
    }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    ~Pin() { unpin(slot_, times_); }
    T& operator*() const { return *slot_.object(); }
    T* operator->() const { return slot_.object(); }

   private:
    Slot& slot_;
    std::uint64_t times_;
  };
  Pin pin(const void* handle, const char* argument) { return Pin(*this, handle, argument); }

 private:
  Slot& slot_of(const void* handle, const char* argument) {
    const auto bits = reinterpret_cast<std::uint64_t>(handle);
    std::uint64_t times = 0;
    if ((bits & 31) == static_cast<std::uint64_t>(kind)) {
      const std::uint64_t index = bits >> 5 & (places - 1);
      if (Block* const block = blocks_[index / of_a_block].load(std::memory_order_acquire)) {
        Slot& slot = (*block)[index % of_a_block];
        times = slot.state.load(std::memory_order_acquire) >> pin_bits;
        if (times == bits >> 27) return slot;
      }
    }
    refuse(bits, kind, argument, times);
  }
  Slot& free_slot() {
    std::unique_lock lock(lock_);
    while (free_ == nullptr) {
      lock.unlock();
      static const bool is_held_at_fork = (hold_at_fork(lock_), true);
      static_cast<void>(is_held_at_fork);
      auto more = std::make_unique<Block>();
      lock.lock();
      if (free_ == nullptr) grow(std::move(more));
    }
    Place* const place = free_;
    free_ = place->next;
    return static_cast<Slot&>(*place);
  }
  void grow(std::unique_ptr<Block> block) {
    if (grown_ == blocks) refuse_more(kind);
    for (std::uint32_t i = of_a_block; i-- > 0;) {
      Slot& slot = (*block)[i];
      slot.index = grown_ * of_a_block + i;
      slot.end = &end;
      slot.next = std::exchange(free_, &slot);
    }
    blocks_[grown_++].store(block.release(), std::memory_order_release);
  }
  static void end(Place& place) noexcept;

  std::array<std::atomic<Block*>, blocks> blocks_{};
  std::uint32_t grown_ = 0;
  Place* free_ = nullptr;
  detail::SpinLock lock_;
};

/// The table of a kind, which is never destroyed: handles may be used while static objects end.
template <class T, Kind kind>
Table<T, kind>& table() noexcept {
  static constinit Table<T, kind> all;
  return all;
}

template <class T, Kind kind>
void Table<T, kind>::end(Place& place) noexcept {
  auto& slot = static_cast<Slot&>(place);
  slot.object()->~T();
  Table& all = table<T, kind>();
  const std::lock_guard lock(all.lock_);
  slot.next = std::exchange(all.free_, &slot);
}

}  // namespace weft::c
