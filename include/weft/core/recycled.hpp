#pragma once
// Memory for what comes and goes in every step: tasks, events, short lists. Blocks that are given back are
// kept for the next of their size, by every thread a few and the rest for all, and never go back to the heap;
// so a training that does the same step by step takes nothing from the heap once it is warm (docs/memory.md).
//
// Sizes are rounded up to whole cache lines, from 1 KiB on to powers of two; beyond 1 MiB it is the heap. Any
// thread may give back what another took, also after the last of its statics. When blocks of a size run out,
// as many are made as there are. How many are in use at once depends on which thread is how fast, so that a
// later step may need more than all before; a RecycledCount makes as many ready as a step takes in all. Under
// the address sanitizer all of it is the heap, so that it sees who uses what was given back.
//
//   class Copy final : public Task { ... };        // tasks are recycled anyway
//   RecycledVector<Event> arrived;                 // a std::vector
//   auto step = make_recycled<Step>(number);       // a std::shared_ptr
//
// WRONG: RecycledVector<float> gradients(n);       // not for data: what a size needed once is kept for good

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace weft {

/// Base of classes whose objects, made with new, are recycled.
class Recycled {
 public:
  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t sizes = 26;  ///< that blocks have

  /// Aligned to `alignment`. @throws std::bad_alloc
  static void* take(std::size_t bytes);
  /// @param bytes as they were taken
  static void give_back(void* memory, std::size_t bytes) noexcept;

  static void* operator new(std::size_t bytes) { return take(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { give_back(memory, bytes); }
  // What asks for more than `alignment` is the heap's.
  static void* operator new(std::size_t bytes, std::align_val_t at) { return ::operator new(bytes, at); }
  static void operator delete(void* memory, std::size_t, std::align_val_t at) noexcept {
    ::operator delete(memory, at);
  }

 protected:
  Recycled() = default;
  ~Recycled() = default;
};

/// Counts what all threads take. Of the first steps of a training, so that none after finds too little: even
/// if in one of them nothing is given back before its end.
class RecycledCount {
 public:
  /// From now on.
  RecycledCount();
  /// As many blocks of every size lie ready as were taken since, and some of every other. Memory that is not
  /// used is not touched. @throws std::bad_alloc
  void reserve() const;

 private:
  std::array<std::uint64_t, Recycled::sizes> before_;
};

template <class T>
class RecycledAllocator {
 public:
  using value_type = T;

  RecycledAllocator() = default;
  template <class Other>
  RecycledAllocator(const RecycledAllocator<Other>&) noexcept {}  // NOLINT: as allocators do

  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= Recycled::alignment);
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(Recycled::take(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t count) noexcept { Recycled::give_back(memory, count * sizeof(T)); }
  friend bool operator==(const RecycledAllocator&, const RecycledAllocator&) { return true; }
};

template <class T>
using RecycledVector = std::vector<T, RecycledAllocator<T>>;
template <class T>
using RecycledDeque = std::deque<T, RecycledAllocator<T>>;

/// std::make_shared of a recycled object.
template <class T, class... Arguments>
std::shared_ptr<T> make_recycled(Arguments&&... arguments) {
  return std::allocate_shared<T>(RecycledAllocator<std::remove_const_t<T>>(),
                                 std::forward<Arguments>(arguments)...);
}

}  // namespace weft
