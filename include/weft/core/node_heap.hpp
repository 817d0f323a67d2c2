#pragma once
// Memory that the processes of one node can reach in each other, without a copy and without a file that could
// stay behind.
//
// A heap is one memfd of this process: address space for `capacity` bytes is reserved at once. Pages of small
// buffers exist when they are first touched (zeroed, on the toucher's NUMA node); buffers of 2 MiB and more
// are put on huge pages, and so take their memory, when they are made (where the system has huge pages: Linux
// 6.1 or newer, whatever its settings). All go back when freed. A peer maps the whole heap once with
// `HeapMapping` and then addresses any allocation, past or future, by its offset. The kernel frees everything
// with the last process, however it died. Allocation is thread-safe; blocks are aligned to 128 bytes.
//
//   auto heap = NodeHeap::create(1 << 30);
//   Buffer buffer = heap->allocate(DataType::f32, 1000);
//   // peer:  HeapMapping mapping(heap_owner_pid, heap_owner_fd, 1 << 30);  mapping.at(offset)
//
// Peers must run as the same user in the same pid namespace, for they open /proc/PID/fd/FD.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "weft/core/buffer.hpp"

namespace weft {

/// A shared mapping of a file descriptor; unmapped by its destructor.
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

/// An anonymous file in memory, closed by its destructor.
class MemoryFile {
 public:
  /// @throws Error (system)
  MemoryFile(const char* name, std::size_t bytes);
  /// Another process's. @throws Error (system) when that process is gone or may not be looked into
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

  /// Zeroed. The Buffer keeps the heap alive. @throws Error (usage) when the heap is full, naming
  /// WEFT_HEAP_BYTES
  Buffer allocate(DataType dtype, std::int64_t count);

  /// Where `address` lies in the heap, if all `bytes` from it do.
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
