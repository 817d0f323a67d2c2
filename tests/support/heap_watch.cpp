#include "support/heap_watch.hpp"

#include <cxxabi.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <thread>

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace weft::test::heap_watch {
namespace {

constexpr int most_frames = 24;
constexpr std::size_t most_stacks = 16;

struct Stack {
  std::array<void*, most_frames> frames{};
  int depth = 0;
  std::uint64_t times = 0;
};

std::atomic<bool> watches{false};
std::atomic<std::uint64_t> taken{0};
thread_local bool is_noting = false;  // what that takes does not count
std::atomic_flag stacks_lock;
std::array<Stack, most_stacks> stacks;
std::size_t stacks_count = 0;

void note() {
  if (!watches.load(std::memory_order_relaxed) || is_noting) return;
  is_noting = true;
  taken.fetch_add(1, std::memory_order_relaxed);
  Stack stack;
  stack.depth = backtrace(stack.frames.data(), most_frames);
  while (stacks_lock.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  auto* const end = stacks.data() + stacks_count;
  auto* found =
      std::find_if(stacks.data(), end, [&](const Stack& one) { return one.frames == stack.frames; });
  if (found == end && stacks_count < most_stacks) {
    *found = stack;
    ++stacks_count;
  }
  if (found < stacks.data() + stacks_count) ++found->times;
  stacks_lock.clear(std::memory_order_release);
  is_noting = false;
}

/// "program(function+0x12) [0x34]" with the function's name as it is written.
std::string readable(const std::string& symbol) {
  const auto open = symbol.find('(');
  const auto plus = symbol.find('+', open);
  if (open == std::string::npos || plus == std::string::npos) return symbol;
  int status = 0;
  char* const name =
      abi::__cxa_demangle(symbol.substr(open + 1, plus - open - 1).c_str(), nullptr, nullptr, &status);
  if (name == nullptr) return symbol;
  std::string result = symbol.substr(0, open + 1) + name + symbol.substr(plus);
  std::free(name);
  return result;
}

}  // namespace

void begin() {
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // the first one loads what it needs
  taken = 0;
  stacks_count = 0;
  watches = true;
}

std::uint64_t end() {
  watches = false;
  return taken;
}

std::string report() {
  std::ostringstream out;
  for (std::size_t i = 0; i < stacks_count; ++i) {
    const Stack& stack = stacks[i];
    out << stack.times << " times by\n";
    char** const symbols = backtrace_symbols(stack.frames.data(), stack.depth);
    for (int frame = 2; frame < stack.depth; ++frame) out << "    " << readable(symbols[frame]) << '\n';
    std::free(symbols);
  }
  return std::move(out).str();
}

}  // namespace weft::test::heap_watch

using weft::test::heap_watch::note;

extern "C" {

void* malloc(std::size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  note();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  note();
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  note();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
