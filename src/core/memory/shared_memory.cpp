#include "weft/core/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "core/base/file_limit.hpp"
#include "core/base/round_up.hpp"
#include "core/memory/host_memory.hpp"
#include "weft/core/env.hpp"

namespace weft {
namespace {

using detail::huge_page;
using detail::page_bytes;
using detail::round_up;

/// Maps the file at a multiple of the huge page's size, so that its huge pages can be mapped as such:
/// reserves more address space than is needed, maps the file inside and gives the margins back. MAP_FAILED,
/// with errno, on failure.
void* map_aligned(int fd, std::size_t bytes) {
  const std::size_t length = round_up(bytes, page_bytes());
  const std::size_t reserved = length + huge_page;
  void* area = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return MAP_FAILED;
  auto* begin = static_cast<std::byte*>(area);
  const std::size_t before =
      round_up(reinterpret_cast<std::uintptr_t>(begin), huge_page) - reinterpret_cast<std::uintptr_t>(begin);
  void* address =
      mmap(begin + before, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (address == MAP_FAILED) {
    const int reason = errno;
    munmap(area, reserved);
    errno = reason;
    return MAP_FAILED;
  }
  if (before > 0) munmap(begin, before);
  munmap(begin + before + length, reserved - before - length);
  return address;
}

}  // namespace

SharedMapping::SharedMapping(int fd, std::size_t bytes) : bytes_(bytes) {
  void* address = map_aligned(fd, bytes);
  if (address == MAP_FAILED) {
    throw system_error(text("cannot map ", bytes, " bytes of shared memory"),
                       text("raise `ulimit -v` or set ", env::heap_bytes.name, " to less"));
  }
  base_ = static_cast<std::byte*>(address);
}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

MemoryFile::MemoryFile(const char* name, std::size_t bytes)
    : fd_(memfd_create(name, MFD_CLOEXEC)), bytes_(bytes) {
  if (fd_ < 0) throw system_error("cannot make an anonymous memory file");
  const detail::FileLimitIsAnError limit;
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
    const Error error = system_error(
        text("cannot reserve ", bytes, " bytes of shared memory"),
        text("raise `ulimit -f`, if there is a limit, or set ", env::heap_bytes.name, " to less"));
    close(fd_);
    throw error;
  }
}

MemoryFile MemoryFile::of_process(int pid, int fd, std::size_t bytes) {
  const std::string path = text("/proc/", pid, "/fd/", fd);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) {
    throw system_error(text("cannot open the shared memory of process ", pid, " at ", path),
                       "ranks of one node must run as one user in one pid namespace, and be alive");
  }
  MemoryFile file(opened, bytes);
  // What a peer says is believed only of a memory file that is large enough: another file of that process would be
  // written into, and a smaller one end this process.
  struct stat status {};
  char name[64] = {};
  const std::string link = text("/proc/self/fd/", opened);
  const bool is_memory = readlink(link.c_str(), name, sizeof(name) - 1) > 0 &&
                         std::string_view(name).starts_with("/memfd:weft-");
  if (!is_memory || fstat(opened, &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    throw Error(
        ErrorKind::mismatch,
        text("descriptor ", fd, " of process ", pid, " is no shared memory of weft with ", bytes, " bytes"),
        "it is no rank of this job, or of another build of weft");
  }
  return file;
}

std::pair<std::uint64_t, std::uint64_t> MemoryFile::identity() const {
  struct stat status {};
  if (fstat(fd_, &status) != 0) throw system_error("cannot tell one memory file from another");
  return {status.st_dev, status.st_ino};
}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace weft
