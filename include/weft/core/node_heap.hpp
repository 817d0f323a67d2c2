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
//   auto heap = NodeHeap::create(1 << 30);
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

namespace weft {

/// A shared mapping of a file descriptor, which its destructor unmaps.
class SharedMapping {
 public:
  SharedMapping() = default;
  /// @throws Error (system) when the address space does not allow it
  SharedMapping(int fd, std::size_t bytes);
  SharedMapping(SharedMapping&& other) noexcept : base_(other.base_), bytes_(other.bytes_) {
    other.base_ = nullptr;
  }
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();

  std::byte* base() const { return base_; }
  std::size_t size() const { return bytes_; }
  std::byte* at(std::uint64_t offset) const { return base_ + offset; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// An anonymous file in memory, which its destructor closes.
class MemoryFile {
 public:
  /// @throws Error (system)
  MemoryFile(const char* name, std::size_t bytes);
  /// The file of another process. @throws Error (system) when that process has ended or may not be inspected
  static MemoryFile of_process(int pid, int fd, std::size_t bytes);
  MemoryFile(MemoryFile&& other) noexcept : fd_(other.fd_), bytes_(other.bytes_) { other.fd_ = -1; }
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile();

  int fd() const { return fd_; }
  std::size_t size() const { return bytes_; }
  SharedMapping map() const { return {fd_, bytes_}; }

 private:
  MemoryFile(int fd, std::size_t bytes) : fd_(fd), bytes_(bytes) {}

  int fd_;
  std::size_t bytes_;
};

class NodeHeap : public std::enable_shared_from_this<NodeHeap> {
 public:
  /// @param capacity bytes of address space; 0: as much as the machine has memory
  static std::shared_ptr<NodeHeap> create(std::size_t capacity);

  /// Zeroed memory; the Buffer keeps the heap alive. @throws Error (usage) when the heap is full, with the
  /// advice to raise WEFT_HEAP_BYTES; (system) when the machine's or container's memory does not suffice
  Buffer allocate(DataType dtype, std::int64_t count);

  /// The offset of `address`, if all `bytes` from there lie in the heap.
  std::optional<std::uint64_t> offset_of(const void* address, std::size_t bytes) const;

  std::byte* at(std::uint64_t offset) const { return mapping_.at(offset); }

  int fd() const { return file_.fd(); }
  std::size_t capacity() const { return file_.size(); }
  std::size_t used() const;

 private:
  explicit NodeHeap(std::size_t capacity);
  std::uint64_t take(std::size_t bytes, std::size_t alignment);
  void give_back(std::uint64_t offset, std::size_t bytes) noexcept;

  MemoryFile file_;
  SharedMapping mapping_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> free_;  // by offset, neighbours merged
  std::size_t used_ = 0;
};

}  // namespace weft
