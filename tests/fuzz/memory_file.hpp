#pragma once
// A file in memory, under a path, for what reads files.

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fuzz/expect_refused.hpp"

namespace weft::test {

class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    expect(write(descriptor_, data, size) == static_cast<ssize_t>(size), "a file in memory is written");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }
  std::string path() const { return text("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace weft::test
