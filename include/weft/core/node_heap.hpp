#pragma once
// Memory that the processes of one node read and write in each other without a copy. No file stays behind.
//
// A heap is one memfd of its process, with `capacity` bytes of address space. The pages of a small buffer are
// taken when they are first touched, zeroed and on the NUMA node of the thread that touches them. A buffer of
// 2 MiB or more is put on huge pages, and takes its memory, when it is allocated (Linux 6.1 or newer, with
// any setting of huge pages). All pages go back to the system when a buffer is freed. A peer maps the whole
// heap once and then reaches every allocation, past or future, at its offset. The kernel frees the heap with
// the last process, however that ends. Allocation is thread-safe and first-fit; blocks are aligned to 128
// bytes.
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
//
// Peers run as the same user in the same pid namespace, because they open /proc/PID/fd/FD.

#include <cstddef>
#include <cstdint>
#include <map>
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

  /// Zeroed memory; the Buffer keeps the heap alive. @throws Error (usage) when the heap is full, with the
  /// advice to raise WEFT_HEAP_BYTES, or in a child that was forked; (system) when the machine's or container's memory does not suffice
  Buffer allocate(DataType dtype, std::int64_t count);

  /// The offset of `address`, if all `bytes` from there lie in the heap.
  std::optional<std::uint64_t> offset_of(const void* address, std::size_t bytes) const;

  std::byte* at(std::uint64_t offset) const { return mapping_.at(offset); }

  int fd() const { return file_.fd(); }
  std::size_t capacity() const { return file_.size(); }
  std::size_t used() const;
  /// False in a child that was forked since the heap was made. Costs a load.
  bool is_of_this_process() const;

 private:
  explicit NodeHeap(std::size_t capacity);
  std::uint64_t take(std::size_t bytes, std::size_t alignment);
  void give_back(std::uint64_t offset, std::size_t bytes) noexcept;

  MemoryFile file_;
  SharedMapping mapping_;
  std::uint64_t generation_;
  int pid_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> free_;  // by offset, neighbours merged
  std::size_t used_ = 0;
};

}  // namespace weft
