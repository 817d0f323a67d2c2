#include "weft/core/node_heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "core/base/round_up.hpp"
#include "core/memory/host_memory.hpp"
#include "core/memory/per_process.hpp"
#include "weft/core/env.hpp"

namespace weft {
namespace {

using detail::huge_page;
using detail::page_bytes;
using detail::round_up;

constexpr int collapse = 25;  // MADV_COLLAPSE of Linux 6.1, which older C libraries do not name

/// The heaps of of_process(), by capacity.
constinit detail::PerProcess<std::map<std::size_t, std::weak_ptr<NodeHeap>>> heaps;

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
}

/// @param asked 0: the machine's memory
std::size_t whole_pages(std::size_t asked) {
  return round_up(asked == 0 ? machine_memory() : asked, page_bytes());
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

std::shared_ptr<NodeHeap> NodeHeap::create(std::size_t capacity) {
  return std::shared_ptr<NodeHeap>(new NodeHeap(whole_pages(capacity)));
}

std::shared_ptr<NodeHeap> NodeHeap::of_process(std::size_t capacity) {
  return heaps.use([bytes = whole_pages(capacity)](auto& known) {
    std::erase_if(known, [](const auto& one) { return one.second.expired(); });
    auto heap = known[bytes].lock();
    if (!heap) known[bytes] = heap = create(bytes);
    return heap;
  });
}

NodeHeap::NodeHeap(std::size_t capacity)
    : file_("weft-heap", capacity),
      mapping_(file_.map()),
      generation_(detail::process_generation()),
      pid_(getpid()) {
  free_.emplace(0, capacity);
}

bool NodeHeap::is_of_this_process() const {
  return generation_ == detail::process_generation();
}

Buffer NodeHeap::allocate(DataType dtype, std::int64_t count) {
  if (count < 0) throw Error(ErrorKind::usage, text("a buffer of ", count, " elements"), "counts are >= 0");
  const std::size_t bytes = round_up(static_cast<std::size_t>(count) * size_of(dtype), Buffer::alignment);
  if (bytes == 0) return Buffer(View(nullptr, 0, dtype), nullptr);
  if (!is_of_this_process()) {
    throw Error(ErrorKind::usage,
                text("process ", getpid(), " asks for ", bytes, " bytes of the node heap of process ", pid_,
                     ", which forked it"),
                "after fork() make a new heap, or connect() anew, in the child");
  }
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
  if (!is_of_this_process()) return;  // the parent still uses it
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
