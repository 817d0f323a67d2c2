#include "weft/core/node_heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>

#include "core/base/round_up.hpp"
#include "core/memory/free_space.hpp"
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

std::size_t alignment_of(std::size_t bytes) {
  return bytes < huge_page ? Buffer::alignment : huge_page;
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

/// Those of a range; where it has none, `end` may lie before `begin`.
struct WholePages {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  static WholePages of(std::uint64_t offset, std::size_t bytes) {
    return {round_up(offset, page_bytes()), (offset + bytes) / page_bytes() * page_bytes()};
  }
};

/// Gives pages back to the system: they read as zero then. @returns false: there were none, or it refused
bool punch(int fd, WholePages pages) noexcept {
  return pages.begin < pages.end &&
         fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(pages.begin),
                   static_cast<off_t>(pages.end - pages.begin)) == 0;
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

/// Clean ranges read as zero, and mostly have no pages; kept ones hold what freed buffers left, on pages.
struct NodeHeap::Free {
  detail::FreeSpace clean;
  detail::FreeSpace kept;
};

NodeHeap::NodeHeap(std::size_t capacity)
    : file_("weft-heap", capacity),
      mapping_(file_.map()),
      generation_(detail::process_generation()),
      pid_(getpid()),
      free_(std::make_unique<Free>()) {
  free_->clean.add(0, capacity);
}

NodeHeap::~NodeHeap() = default;

bool NodeHeap::is_of_this_process() const {
  return generation_ == detail::process_generation();
}

void NodeHeap::expect_own(std::size_t bytes) const {
  if (is_of_this_process()) return;
  throw Error(ErrorKind::usage,
              text("process ", getpid(), " asks for ", bytes, " bytes of the node heap of process ", pid_,
                   ", which forked it"),
              "after fork() make a new heap, or connect() anew, in the child");
}

Buffer NodeHeap::allocate(DataType dtype, std::int64_t count, Contents contents) {
  if (count < 0) throw Error(ErrorKind::usage, text("a buffer of ", count, " elements"), "counts are >= 0");
  const std::size_t bytes = round_up(static_cast<std::size_t>(count) * size_of(dtype), Buffer::alignment);
  if (bytes == 0) return Buffer(View(nullptr, 0, dtype), nullptr);
  expect_own(bytes);
  std::optional<std::uint64_t> offset;
  if (contents == Contents::any) {
    const std::lock_guard lock(mutex_);
    offset = free_->kept.take_smallest(bytes, alignment_of(bytes));
    if (offset) used_ += bytes;
  }
  if (!offset) {
    make_room(contents == Contents::any ? round_up(bytes, huge_page) : bytes);
    offset = take_clean(bytes, contents);
  }
  return Buffer(View(mapping_.at(*offset), count, dtype),
                [heap = shared_from_this(), at = *offset, bytes, contents](void*) {
                  heap->give_back(at, bytes, contents);
                });
}

/// Refuses an allocation that the memory left cannot hold: the address space for it is there, so that the
/// process would be killed later, when it touches the pages. Ranks that allocate at the same moment may still
/// ask for too much.
void NodeHeap::make_room(std::size_t bytes) {
  constexpr std::size_t worth_asking = std::size_t{64} << 20;
  constexpr std::size_t to_spare = std::size_t{256} << 20;
  {
    const std::lock_guard lock(mutex_);
    unasked_ += bytes;
    if (unasked_ < worth_asking) return;
    unasked_ = 0;
  }
  auto left = detail::memory_left();
  if (left && *left < bytes + to_spare && trim() > 0) left = detail::memory_left();
  if (!left || bytes <= *left) return;
  throw Error(ErrorKind::system,
              text("the node heap needs ", bytes, " bytes, and this rank has ", *left,
                   " left of the machine's memory or its container's"),
              "raise the container's memory limit, or keep less on a node: fewer ranks, smaller buffers, "
              "NodeHeap::trim() on the other ranks");
}

/// For Contents::any all of the huge pages that it begins on; the rest of the last one is kept for the next.
std::uint64_t NodeHeap::take_clean(std::size_t bytes, Contents contents) {
  std::size_t extent = contents == Contents::any ? round_up(bytes, huge_page) : bytes;
  std::optional<std::uint64_t> offset;
  {
    const std::lock_guard lock(mutex_);
    detail::FreeSpace& clean = free_->clean;
    offset = clean.take_first(extent, alignment_of(extent));
    if (!offset) {
      extent = bytes;
      offset = clean.take_first(bytes, alignment_of(bytes));
    }
    if (!offset && trim_locked() > 0) offset = clean.take_first(bytes, alignment_of(bytes));
    if (!offset) {
      throw Error(
          ErrorKind::usage,
          text("the node heap has no room for ", bytes, " bytes: ", used_, " of ", capacity(), " are used"),
          text("set ", env::heap_bytes.name, " to more"));
    }
    used_ += bytes;
  }
  use_huge_pages(mapping_.at(*offset), extent);
  if (extent > bytes) {
    const std::lock_guard lock(mutex_);
    free_->kept.add(*offset + bytes, extent - bytes);
  }
  return *offset;
}

std::size_t NodeHeap::trim() {
  if (!is_of_this_process()) return 0;
  const std::lock_guard lock(mutex_);
  return trim_locked();
}

std::size_t NodeHeap::trim_locked() noexcept {
  const std::size_t bytes = free_->kept.bytes();
  for (const auto& [begin, size] : free_->kept.ranges()) {
    zero(begin, size);
    free_->clean.add(begin, size);
  }
  free_->kept.clear();
  // Pages of which two buffers had parts were zeroed part by part, and stayed.
  for (const auto& [begin, size] : free_->clean.ranges()) punch(fd(), WholePages::of(begin, size));
  return bytes;
}

/// Whole pages go back to the system and read as zero afterwards; the parts of pages at both ends are zeroed
/// here.
void NodeHeap::zero(std::uint64_t offset, std::size_t bytes) noexcept {
  const WholePages whole = WholePages::of(offset, bytes);
  if (punch(fd(), whole)) {
    std::memset(mapping_.at(offset), 0, whole.begin - offset);
    std::memset(mapping_.at(whole.end), 0, offset + bytes - whole.end);
  } else {
    std::memset(mapping_.at(offset), 0, bytes);
  }
}

void NodeHeap::give_back(std::uint64_t offset, std::size_t bytes, Contents contents) noexcept {
  if (!is_of_this_process()) return;  // the parent still uses it
  const bool is_kept = contents == Contents::any;
  if (!is_kept) zero(offset, bytes);
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  (is_kept ? free_->kept : free_->clean).add(offset, bytes);
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

std::size_t NodeHeap::kept() const {
  const std::lock_guard lock(mutex_);
  return free_->kept.bytes();
}

}  // namespace weft
