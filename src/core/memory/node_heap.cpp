#include "weft/core/node_heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/round_up.hpp"
#include "core/files/file_limit.hpp"
#include "core/memory/host_memory.hpp"
#include "weft/core/env.hpp"

namespace weft {
namespace {

using detail::huge_page;
using detail::round_up;

constexpr int collapse = 25;  // MADV_COLLAPSE of Linux 6.1, which older C libraries do not name

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
}

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

/// Puts the memory on huge pages, as far as whole ones fit and the system has some. Systems seldom use them
/// for shared memory by themselves, and a reduction reads the memory of all ranks, which needs many page
/// table entries.
void use_huge_pages(std::byte* begin, std::size_t bytes) {
  const std::size_t whole = bytes / huge_page * huge_page;
  for (std::size_t i = 0; i < whole; i += huge_page) {
    begin[i] = std::byte{0};  // MADV_COLLAPSE needs at least one page that exists
  }
  if (whole > 0) madvise(begin, whole, collapse);  // a failure costs only speed
}

/// Refuses an allocation that the memory left cannot hold: the address space for it is there, so that the
/// process would be killed later, when it touches the pages. Ranks that allocate at the same moment may still
/// ask for too much.
void check_memory_left(std::size_t bytes) {
  constexpr std::size_t worth_asking = std::size_t{64} << 20;
  if (bytes < worth_asking) return;
  const auto left = detail::memory_left();
  if (!left || bytes <= *left) return;
  throw Error(ErrorKind::system,
              text("the node heap needs ", bytes, " bytes, and this rank has ", *left,
                   " left of the machine's memory or its container's"),
              "raise the container's memory limit, or keep less on a node: fewer ranks, smaller buffers");
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

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

std::shared_ptr<NodeHeap> NodeHeap::create(std::size_t capacity) {
  return std::shared_ptr<NodeHeap>(
      new NodeHeap(round_up(capacity == 0 ? machine_memory() : capacity, page_bytes())));
}

NodeHeap::NodeHeap(std::size_t capacity) : file_("weft-heap", capacity), mapping_(file_.map()) {
  free_.emplace(0, capacity);
}

Buffer NodeHeap::allocate(DataType dtype, std::int64_t count) {
  if (count < 0) throw Error(ErrorKind::usage, text("a buffer of ", count, " elements"), "counts are >= 0");
  const std::size_t bytes = round_up(static_cast<std::size_t>(count) * size_of(dtype), Buffer::alignment);
  if (bytes == 0) return Buffer(View(nullptr, 0, dtype), nullptr);
  check_memory_left(bytes);
  const std::uint64_t offset = take(bytes, bytes < huge_page ? Buffer::alignment : huge_page);
  use_huge_pages(mapping_.at(offset), bytes);
  return Buffer(View(mapping_.at(offset), count, dtype),
                [heap = shared_from_this(), offset, bytes](void*) { heap->give_back(offset, bytes); });
}

std::uint64_t NodeHeap::take(std::size_t bytes, std::size_t alignment) {
  const std::lock_guard lock(mutex_);
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    const auto [begin, size] = *block;
    const std::uint64_t offset = round_up(begin, alignment);
    if (offset + bytes > begin + size) continue;
    free_.erase(block);
    if (offset > begin) free_.emplace(begin, offset - begin);
    if (offset + bytes < begin + size) free_.emplace(offset + bytes, begin + size - offset - bytes);
    used_ += bytes;
    return offset;
  }
  throw Error(
      ErrorKind::usage,
      text("the node heap has no room for ", bytes, " bytes: ", used_, " of ", capacity(), " are used"),
      text("set ", env::heap_bytes.name, " to more"));
}

void NodeHeap::give_back(std::uint64_t offset, std::size_t bytes) noexcept {
  // Whole pages go back to the system and read as zero afterwards; the parts of pages at both ends are zeroed
  // here.
  const std::uint64_t first = round_up(offset, page_bytes());
  const std::uint64_t last = (offset + bytes) / page_bytes() * page_bytes();
  const bool punched =
      first < last && fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                                static_cast<off_t>(last - first)) == 0;
  if (punched) {
    std::memset(mapping_.at(offset), 0, first - offset);
    std::memset(mapping_.at(last), 0, offset + bytes - last);
  } else {
    std::memset(mapping_.at(offset), 0, bytes);
  }

  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  auto block = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(block);
      next != free_.end() && block->first + block->second == next->first) {
    block->second += next->second;
    free_.erase(next);
  }
  if (block != free_.begin()) {
    const auto previous = std::prev(block);
    if (previous->first + previous->second == block->first) {
      previous->second += block->second;
      free_.erase(block);
    }
  }
}

std::optional<std::uint64_t> NodeHeap::offset_of(const void* address, std::size_t bytes) const {
  const auto* byte = static_cast<const std::byte*>(address);
  const std::less<> before;
  if (before(byte, mapping_.base()) || before(mapping_.base() + mapping_.size(), byte + bytes))
    return std::nullopt;
  return static_cast<std::uint64_t>(byte - mapping_.base());
}

std::size_t NodeHeap::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace weft
