#pragma once
// Memory that the processes of one node read and write in each other without a copy. No file stays behind.
//
// A heap is one memfd of its process, with `capacity` bytes of address space. The pages of a small buffer are
// taken when they are first touched, zeroed and on the NUMA node of the thread that touches them. A buffer of
// 2 MiB or more is put on huge pages, and takes its memory, when it is allocated (Linux 6.1 or newer, with
// any setting of huge pages). Blocks are aligned to 128 bytes, those of 2 MiB or more to 2 MiB. A peer maps the
// whole heap once and then reaches every allocation, past or future, at its offset. The kernel frees the heap
// with the last process, however that ends. Any thread allocates, and frees what another allocated.
//
// A zeroed buffer (the default) gives its pages back to the system when it is freed. The memory of a buffer of
// Contents::any is kept, with its huge pages, for the next such one, of any size: the smallest kept range that
// fits is used, and neighbours merge. Both then take about a microsecond and no system call. Where none fits,
// whole huge pages are taken. What is kept goes back to the system when the heap has no room, and by trim(). It
// also does when less than 256 MiB of the machine's or container's memory would be left; the heap looks every
// 64 MiB that it grows by. So used() + kept() is at most what was in use at once, and what sizes that differ
// leave between.
//
// A process has one heap for all its communicators, of_process(): what was allocated through one of them is
// reached in the operations of every other. The last communicator or buffer frees it. A child after fork()
// sees its parent's buffers, as memory that both write. It neither allocates from that heap nor frees there;
// in the child a new connect() makes a new heap.
//
//   auto heap = NodeHeap::of_process(1 << 30);
//   Buffer buffer = heap->allocate(DataType::f32, 1000);
//   // in a peer, which was told the owner's process, heap->fd() and the offset:
//   const SharedMapping mapping = MemoryFile::of_process(pid, fd, 1 << 30).map();
//   std::byte* there = mapping.at(offset);
//   // for many buffers that are written before they are read:
//   Buffer tensor = heap->allocate(DataType::f32, 1000, Contents::any);
//
// WRONG: Buffer sum = heap->allocate(DataType::f32, 1000, Contents::any); sum.as<float>()[0] += 1;   // to what?
//
// Peers run as the same user in the same pid namespace, because they open /proc/PID/fd/FD.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "weft/core/buffer.hpp"
#include "weft/core/shared_memory.hpp"

namespace weft {

class NodeHeap : public std::enable_shared_from_this<NodeHeap> {
 public:
  /// A heap of its own. @param capacity bytes of address space; 0: as much as the machine has memory
  static std::shared_ptr<NodeHeap> create(std::size_t capacity);
  /// The heap of this process with that capacity, which is made if it has none. Another capacity is another
  /// heap. Communicators that have different heaps stage each other's memory.
  static std::shared_ptr<NodeHeap> of_process(std::size_t capacity);
  ~NodeHeap();
  NodeHeap(const NodeHeap&) = delete;
  NodeHeap& operator=(const NodeHeap&) = delete;

  /// The Buffer keeps the heap alive. @throws Error (usage) when the heap is full, with the advice to raise
  /// WEFT_HEAP_BYTES, and in a child that was forked; (system) when the machine's or container's memory does not
  /// suffice
  Buffer allocate(DataType dtype, std::int64_t count, Contents contents = Contents::zeroed);
  /// Gives all that is kept back to the system, in some milliseconds for a GB. @returns bytes
  std::size_t trim();

  /// The offset of `address`, if all `bytes` from there lie in the heap.
  std::optional<std::uint64_t> offset_of(const void* address, std::size_t bytes) const;

  std::byte* at(std::uint64_t offset) const { return mapping_.at(offset); }

  int fd() const { return file_.fd(); }
  std::size_t capacity() const { return file_.size(); }
  /// Bytes in buffers.
  std::size_t used() const;
  /// Bytes of freed buffers that are kept for others.
  std::size_t kept() const;
  /// False in a child that was forked since the heap was made. Costs a load.
  bool is_of_this_process() const;

 private:
  struct Free;  // what is free

  explicit NodeHeap(std::size_t capacity);
  void expect_own(std::size_t bytes) const;
  void make_room(std::size_t bytes);
  std::uint64_t take_clean(std::size_t bytes, Contents contents);
  std::size_t trim_locked() noexcept;
  void zero(std::uint64_t offset, std::size_t bytes) noexcept;
  void give_back(std::uint64_t offset, std::size_t bytes, Contents contents) noexcept;

  MemoryFile file_;
  SharedMapping mapping_;
  std::uint64_t generation_;
  int pid_;
  mutable std::mutex mutex_;  // guards all below
  std::unique_ptr<Free> free_;
  std::size_t used_ = 0;
  std::size_t unasked_ = 0;  // bytes that were taken since the system was asked what is left
};

}  // namespace weft
