#include "emulation/records.hpp"

#include <link.h>

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "emulation/grid.hpp"
#include "weft/core/text.hpp"

namespace weft::emulation {
namespace records {
namespace {

/// A Place in less room, for there are three of them for each byte.
struct Mark {
  bool is_set = false;
  bool atomic = false;
  std::uint16_t thread = 0;
  std::uint32_t block = 0;
  std::uint32_t epoch = 0;

  static Mark of(const Place& place, bool atomic) {
    return {true, atomic, static_cast<std::uint16_t>(place.thread), static_cast<std::uint32_t>(place.block),
            static_cast<std::uint32_t>(place.epoch)};
  }
  bool in_block_of(const Place& now) const { return block == static_cast<std::uint32_t>(now.block); }
  bool in_epoch_of(const Place& now) const {
    return in_block_of(now) && epoch == static_cast<std::uint32_t>(now.epoch);
  }
  bool by(const Place& now) const { return in_block_of(now) && thread == now.thread; }
};

/// What is known of a byte.
struct Byte {
  Mark written;
  Mark read;          // the first of its block and epoch
  bool also = false;  // read by other threads of that block and epoch
  Mark read_before;   // by an earlier block
};

constexpr std::size_t chunk = 64;
using Chunk = std::array<Byte, chunk>;

using Chunks = std::unordered_map<std::uintptr_t, Chunk>;
struct Records {
  Chunks chunks;
  Chunks shared;  // of shared memory, of this block
  std::string conflict;
};
/// Whether this thread runs a kernel: what launches kernels is compiled with them, and is not recorded.
thread_local bool is_device __attribute__((tls_model("initial-exec"))) = false;

Records& all() {
  static auto* const one = new Records;
  return *one;
}

/// The segment of the program, which is the first of its modules, that can be written.
std::pair<std::uintptr_t, std::uintptr_t> variables_of_program() {
  std::pair<std::uintptr_t, std::uintptr_t> result{};
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* found) {
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& segment = module->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
          const std::uintptr_t begin = module->dlpi_addr + segment.p_vaddr;
          *static_cast<decltype(result)*>(found) = {begin, begin + segment.p_memsz};
        }
        return 1;  // no other module
      },
      &result);
  return result;
}

// Kernels have no variables but those that their blocks share: what is in a program's variables is in shared memory.
bool is_shared(const void* address) {
  static const auto [begin, end] = variables_of_program();
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= begin && at < end;
}
bool is_built_in(const void* address) {
  return address >= &built_in && address < &built_in + 1;
}

bool meet(const Mark& one, const Place& now, bool atomic) {
  if (!one.is_set || (one.atomic && atomic)) return false;
  return !one.in_block_of(now) || (one.in_epoch_of(now) && !one.by(now));
}

void report(const void* address, const char* does, const Place& now, const char* what, const Mark& before) {
  if (!all().conflict.empty()) return;
  all().conflict =
      text("thread ", now.thread, " of block ", now.block, " ", does, " ", address, ", which thread ",
           before.thread, " of block ", before.block, " ", what, ", and nothing orders the two");
}

void note_read(Byte& byte, const Place& now, bool atomic) {
  Mark& read = byte.read;
  if (read.is_set && read.in_epoch_of(now)) {
    byte.also = byte.also || !read.by(now);
    read.atomic = read.atomic && atomic;
    return;
  }
  if (read.is_set && !read.in_block_of(now) && !byte.read_before.is_set) byte.read_before = read;
  read = Mark::of(now, atomic);
  byte.also = false;
}

void note_write(Byte& byte, const void* address, const Place& now, bool atomic) {
  constexpr const char* does = "writes";
  if (meet(byte.written, now, atomic)) report(address, does, now, "has written", byte.written);
  if (meet(byte.read, now, atomic)) report(address, does, now, "has read", byte.read);
  if (byte.also && byte.read.in_epoch_of(now) && !(byte.read.atomic && atomic))
    report(address, does, now, "and others have read", byte.read);
  if (meet(byte.read_before, now, atomic)) report(address, does, now, "has read", byte.read_before);
  byte.written = Mark::of(now, atomic);
}

void check(Byte& byte, const void* address, Access access) {
  const Place& now = place();
  const bool atomic = access == Access::atomic;
  if (access != Access::read) return note_write(byte, address, now, atomic);
  if (meet(byte.written, now, atomic)) report(address, "reads", now, "has written", byte.written);
  if (is_shared(address) && !byte.written.is_set && all().conflict.empty()) {
    all().conflict = text("thread ", now.thread, " of block ", now.block,
                          " reads shared memory that no thread of its block has written");
  }
  note_read(byte, now, atomic);
}

}  // namespace

void begin() {
  all().chunks.clear();
  all().conflict.clear();
  is_device = true;
}

// A block finds what others left in shared memory; nothing says what that is.
void begin_block() {
  all().shared.clear();
}

std::string end() {
  is_device = false;
  return all().conflict;
}

void add(const void* address, std::size_t bytes, Access access) {
  if (!is_device || is_built_in(address) || is_local(address)) return;
  Chunks& chunks = is_shared(address) ? all().shared : all().chunks;
  const auto* at = static_cast<const char*>(address);
  for (std::size_t i = 0; i < bytes; ++i, ++at) {
    const auto where = reinterpret_cast<std::uintptr_t>(at);
    check(chunks[where / chunk][where % chunk], at, access);
  }
}

}  // namespace records

void access_atomically(const void* address, std::size_t bytes) {
  records::add(address, bytes, records::Access::atomic);
}

}  // namespace weft::emulation

// What a compiler calls under -fsanitize=thread (gcc/sanitizer.def), where the thread sanitizer itself is not there.
#if !defined(__SANITIZE_THREAD__)
using weft::emulation::records::Access;
using weft::emulation::records::add;
#define WEFT_ACCESSES(bytes)                                   \
  void __tsan_read##bytes(void* address) {                     \
    add(address, bytes, Access::read);                         \
  }                                                            \
  void __tsan_write##bytes(void* address) {                    \
    add(address, bytes, Access::write);                        \
  }                                                            \
  void __tsan_unaligned_read##bytes(void* address) {           \
    add(address, bytes, Access::read);                         \
  }                                                            \
  void __tsan_unaligned_write##bytes(void* address) {          \
    add(address, bytes, Access::write);                        \
  }                                                            \
  void __tsan_volatile_read##bytes(void* address) {            \
    add(address, bytes, Access::atomic);                       \
  }                                                            \
  void __tsan_volatile_write##bytes(void* address) {           \
    add(address, bytes, Access::atomic);                       \
  }                                                            \
  void __tsan_unaligned_volatile_read##bytes(void* address) {  \
    add(address, bytes, Access::atomic);                       \
  }                                                            \
  void __tsan_unaligned_volatile_write##bytes(void* address) { \
    add(address, bytes, Access::atomic);                       \
  }
extern "C" {
WEFT_ACCESSES(1)
WEFT_ACCESSES(2)
WEFT_ACCESSES(4)
WEFT_ACCESSES(8)
WEFT_ACCESSES(16)
void __tsan_read_range(void* address, std::size_t bytes) {
  add(address, bytes, Access::read);
}
void __tsan_write_range(void* address, std::size_t bytes) {
  add(address, bytes, Access::write);
}
// What the classes that launch kernels do, in the same files, is not recorded.
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
int __tsan_atomic32_fetch_add(volatile int* value, int change, int) {
  return __atomic_fetch_add(value, change, __ATOMIC_SEQ_CST);
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
#endif
