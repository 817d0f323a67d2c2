#pragma once
// A thread-caching allocator for the small objects of a training step: tasks, events, short lists. A freed
// block is kept for the next allocation of its size, in a list of the thread or in one for all threads, and
// never goes back to the heap. A training whose steps are alike therefore takes nothing from the heap after
// its first steps (docs/memory.md).
//
// Sizes are rounded up to whole cache lines, above 1 KiB to powers of two; beyond 1 MiB the heap is used. Any
// thread may free what another allocated, also while static objects are destroyed. When the blocks of a size
// run out, as many are made as exist. How many are in use at once depends on the threads' relative speed. So
// a later step may need more than all before it. RecycledCount therefore makes as many ready as a step takes
// in total. Under the address sanitizer every block comes from the heap, so that it detects uses after free.
//
//   class Copy final : public Task { ... };        // tasks are recycled
//   RecycledVector<Event> arrived;                 // a std::vector
//   auto step = make_recycled<Step>(number);       // a std::shared_ptr
//
// WRONG: RecycledVector<float> gradients(n);       // not for data: its memory is kept for ever

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
  static constexpr std::size_t sizes = 26;  ///< number of block sizes

  /// Aligned to `alignment`. @throws std::bad_alloc
  static void* take(std::size_t bytes);
  /// @param bytes as given to take()
  static void give_back(void* memory, std::size_t bytes) noexcept;

  static void* operator new(std::size_t bytes) { return take(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { give_back(memory, bytes); }
  // Types with a greater alignment than `alignment` use the heap.
  static void* operator new(std::size_t bytes, std::align_val_t at) { return ::operator new(bytes, at); }
  static void operator delete(void* memory, std::size_t, std::align_val_t at) noexcept {
    ::operator delete(memory, at);
  }

 protected:
  Recycled() = default;
  ~Recycled() = default;
};

/// Counts the blocks that all threads take, in the first steps of a training, and makes as many ready. No
/// later step then lacks blocks, even if it gives none back before its end.
class RecycledCount {
 public:
  /// Counts from now on.
  RecycledCount();
  /// Makes at least as many free blocks of every size as were taken since. Blocks that are never used are not
  /// touched and take no memory. @throws std::bad_alloc
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
