#pragma once
// Memory that several processes map: an anonymous file in memory, which has no name that could stay behind, and a mapping of it.
//
// Both are owners: they move and are not copied. A mapping does not need its file any more, and the kernel frees the memory with the
// last descriptor and the last mapping, however their processes end. One thread at a time uses an object.
//
//   const MemoryFile file("weft-mine", bytes);                     // zeroed
//   const SharedMapping here = file.map();
//   // in a process of the same user and pid namespace that was told pid and fd:
//   const SharedMapping there = MemoryFile::of_process(pid, fd, bytes).map();
//
// WRONG: MemoryFile::of_process(pid, fd, bytes) after the other process has closed fd: another file may have that number.

#include <cstddef>
#include <cstdint>
#include <utility>

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
  /// Device and inode: equal for every descriptor of one file, in all processes, as long as a process has it open or mapped.
  /// @throws Error (system)
  std::pair<std::uint64_t, std::uint64_t> identity() const;

 private:
  MemoryFile(int fd, std::size_t bytes) : fd_(fd), bytes_(bytes) {}

  int fd_;
  std::size_t bytes_;
};

}  // namespace weft
