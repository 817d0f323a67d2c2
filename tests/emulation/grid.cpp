#include "emulation/grid.hpp"

#include <algorithm>
#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#include "emulation/records.hpp"
#include "weft/core/text.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace weft::emulation {

BuiltIn built_in;

namespace {

constexpr unsigned lanes = 32;
constexpr std::size_t stack_bytes = std::size_t{1} << 18U;

/// Thrown inside a thread that will not be waited for.
struct Stop {};

enum class State { ready, at_barrier, at_shuffle, ended };

// The address sanitizer follows a switch of stacks where it is told of it.
void leave_for([[maybe_unused]] void** own, [[maybe_unused]] const void* bottom,
               [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(own, bottom, bytes);
#endif
}
void arrive([[maybe_unused]] void* own, [[maybe_unused]] const void** bottom,
            [[maybe_unused]] std::size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own, bottom, bytes);
#endif
}

/// The fiber that one thread of each block runs on.
struct Fiber {
  boost::context::stack_context stack;
  boost::context::detail::fcontext_t here = nullptr;    // while the scheduler runs
  boost::context::detail::fcontext_t caller = nullptr;  // while the thread runs
  void* sanitized = nullptr;
  State state = State::ended;
  unsigned mask = 0;
  std::uint64_t brings = 0;
  std::uint64_t gets = 0;
  std::uint64_t from = 0;

  const char* bottom() const { return static_cast<const char*>(stack.sp) - stack.size; }
};

class Device {
 public:
  std::string run(dim3 blocks, dim3 threads, const std::function<void()>& thread) {
    const std::lock_guard lock(mutex_);
    body_ = &thread;
    count_ = threads.x * threads.y * threads.z;
    blockDim = threads;
    gridDim = blocks;
    while (fibers_.size() < count_) add_fiber();
    counts_ = {0, 0, 0, count_};
    order_.resize(count_);
    std::iota(order_.begin(), order_.end(), 0U);
    std::mt19937_64 draw(settings_.seed);
    std::string fault;
    records::begin();
    const std::uint64_t all = std::uint64_t{blocks.x} * blocks.y * blocks.z;
    for (place_.block = settings_.first_block; place_.block < all && fault.empty(); ++place_.block) {
      blockIdx = {static_cast<unsigned>(place_.block % blocks.x),
                  static_cast<unsigned>(place_.block / blocks.x % blocks.y),
                  static_cast<unsigned>(place_.block / blocks.x / blocks.y)};
      if (settings_.seed != 0) std::ranges::shuffle(order_, draw);
      fault = run_block();
    }
    const std::string conflict = records::end();
    return fault.empty() ? conflict : fault;
  }

  bool wait_for_block(bool any) {
    any_ = any_ || any;
    stop_at(State::at_barrier);
    return was_any_;
  }

  std::uint64_t exchange(unsigned mask, std::uint64_t mine, unsigned from) {
    Fiber& me = current();
    me.mask = mask;
    me.brings = mine;
    me.from = from;
    stop_at(State::at_shuffle);
    return me.gets;
  }

  Settings settings_;
  Place place_;

  bool is_local(const void* address) const {
    const auto* at = static_cast<const char*>(address);
    const auto holds = [at](const auto& one) {
      return at >= one->bottom() && at < one->bottom() + one->stack.size;
    };
    return holds(fibers_[place_.thread]) ||
           (at >= lowest_ && at < highest_ && std::ranges::any_of(fibers_, holds));
  }

 private:
  Fiber& current() { return *fibers_[place_.thread]; }
  Fiber& fiber(unsigned thread) { return *fibers_[thread]; }

  void add_fiber() {
    auto one = std::make_unique<Fiber>();
    boost::context::protected_fixedsize_stack allocator(stack_bytes);
    one->stack = allocator.allocate();
    Fiber& fiber = *one;
    lowest_ = lowest_ == nullptr ? fiber.bottom() : std::min(lowest_, fiber.bottom());
    highest_ = std::max(highest_, fiber.bottom() + fiber.stack.size);
    fiber.here = boost::context::detail::make_fcontext(fiber.stack.sp, fiber.stack.size, &enter);
    fibers_.push_back(std::move(one));
  }

  /// What a fiber does: the kernel's body, again for each block.
  [[noreturn]] static void enter(boost::context::detail::transfer_t from);

  [[noreturn]] void live(Fiber& fiber) {
    arrive(nullptr, &bottom_, &bytes_);
    for (;;) {
      try {
        (*body_)();
      } catch (const Stop&) {  // NOLINT(bugprone-empty-catch): that is its end
      }
      set(fiber, State::ended);
      yield(fiber);
    }
  }

  void yield(Fiber& fiber) {
    leave_for(&fiber.sanitized, bottom_, bytes_);
    fiber.caller = boost::context::detail::jump_fcontext(fiber.caller, nullptr).fctx;
    arrive(fiber.sanitized, &bottom_, &bytes_);
  }
  void stop_at(State state) {
    Fiber& me = current();
    set(me, state);
    yield(me);
    if (stopping_) throw Stop();
  }
  void resume(unsigned thread) {
    place_.thread = thread;
    threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y};
    Fiber& fiber = *fibers_[thread];
    void* own = nullptr;
    leave_for(&own, fiber.bottom(), fiber.stack.size);
    fiber.here = boost::context::detail::jump_fcontext(fiber.here, &fiber).fctx;
    arrive(own, nullptr, nullptr);
  }

  std::string run_block() {
    place_.epoch = 0;
    records::begin_block();
    any_ = false;
    for (unsigned t = 0; t < count_; ++t) set(fiber(t), State::ready);
    std::string fault;
    while (fault.empty() && count(State::ended) < count_) {
      bool went_on = false;
      for (const unsigned t : order_) {
        if (fiber(t).state != State::ready) continue;
        resume(t);
        went_on = true;
      }
      fault = release();
      if (fault.empty() && !went_on && count(State::ready) == 0) fault = stuck();
    }
    stopping_ = true;
    for (unsigned t = 0; t < count_; ++t) {
      if (fiber(t).state != State::ended) resume(t);
    }
    stopping_ = false;
    return fault;
  }

  void set(Fiber& fiber, State state) {
    --counts_[static_cast<std::size_t>(fiber.state)];
    ++counts_[static_cast<std::size_t>(state)];
    fiber.state = state;
  }
  unsigned count(State state) const { return counts_[static_cast<std::size_t>(state)]; }
  unsigned first(State state) {
    unsigned t = 0;
    while (fiber(t).state != state) ++t;
    return t;
  }
  std::string here() const { return text("block (", blockIdx.x, ", ", blockIdx.y, ", ", blockIdx.z, "): "); }

  /// Lets those go on who have all come to where they wait.
  std::string release() {
    const unsigned ended = count(State::ended);
    const unsigned waiting = count(State::at_barrier);
    if (waiting > 0 && ended > 0) {
      return text(here(), "thread ", first(State::at_barrier), " and ", waiting - 1,
                  " others wait at a barrier of the block, and thread ", first(State::ended), " has ended");
    }
    if (waiting == count_) {
      ++place_.epoch;
      was_any_ = std::exchange(any_, false);
      for (unsigned t = 0; t < count_; ++t) set(fiber(t), State::ready);
    }
    for (unsigned begin = 0; begin < count_ && count(State::at_shuffle) > 0; begin += lanes) {
      for (unsigned t = begin; t < std::min(begin + lanes, count_); ++t) {
        if (fiber(t).state != State::at_shuffle) continue;
        if (std::string fault = shuffle(begin, fiber(t).mask); !fault.empty()) return fault;
      }
    }
    return {};
  }

  /// The lanes of `mask`, of the warp whose first thread is `begin`, if all are there.
  std::string shuffle(unsigned begin, unsigned mask) {
    std::vector<unsigned> taking_part;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if ((mask >> lane & 1U) == 0) continue;
      if (begin + lane >= count_ || fiber(begin + lane).state == State::ended)
        return text(here(), "a shuffle waits for thread ", begin + lane, ", which has ended or never was");
      const Fiber& one = fiber(begin + lane);
      if (one.state != State::at_shuffle) return {};
      if (one.mask != mask)
        return text(here(), "threads of one warp shuffle with masks ", mask, " and ", one.mask);
      taking_part.push_back(begin + lane);
    }
    for (const unsigned t : taking_part) {
      const auto from = static_cast<unsigned>(fiber(t).from);
      if (from >= lanes || (mask >> from & 1U) == 0)
        return text(here(), "thread ", t, " reads lane ", from, ", which its shuffle's mask does not name");
      fiber(t).gets = fiber(begin + from).brings;
    }
    for (const unsigned t : taking_part) set(fiber(t), State::ready);
    return {};
  }

  std::string stuck() {
    std::string result = text(here(), count(State::at_barrier), " threads wait at a barrier of the block");
    if (count(State::at_barrier) > 0) result += text(" (the first is ", first(State::at_barrier), ")");
    return text(result, ", ", count(State::at_shuffle), " at a shuffle (the first is ",
                first(State::at_shuffle), "): no thread can go on");
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<unsigned> order_;
  const char* lowest_ = nullptr;
  const char* highest_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  unsigned count_ = 0;
  std::array<unsigned, 4> counts_{};  // of threads, by state
  bool any_ = false;
  bool was_any_ = false;
  bool stopping_ = false;
  const void* bottom_ = nullptr;  // of the scheduler's stack
  std::size_t bytes_ = 0;
};

/// Never destroyed: threads may still use it at the process's end.
Device& device() {
  static auto* const one = new Device;
  return *one;
}

void Device::enter(boost::context::detail::transfer_t from) {
  Fiber& fiber = *static_cast<Fiber*>(from.data);
  fiber.caller = from.fctx;
  device().live(fiber);
}

}  // namespace

Settings& settings() {
  return device().settings_;
}
const Place& place() {
  return device().place_;
}
bool is_local(const void* address) {
  return device().is_local(address);
}

std::string run(dim3 blocks, dim3 threads, const std::function<void()>& thread) {
  return device().run(blocks, threads, thread);
}
bool wait_for_block(bool any) {
  return device().wait_for_block(any);
}
std::uint64_t exchange_in_warp(unsigned mask, std::uint64_t mine, unsigned from) {
  return device().exchange(mask, mine, from);
}

}  // namespace weft::emulation
