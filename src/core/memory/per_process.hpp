#pragma once
// A table that a process has once, such as that of the memory it has mapped. A child after fork() begins with an empty one: what
// its parent has reached, owns or guards is the parent's, and the parent's other threads, which may hold a lock, are not there.
//
//   constinit PerProcess<std::map<int, std::weak_ptr<Peer>>> peers;       // in a source, in no header
//   auto peer = peers.use([&](auto& known) { return known[pid].lock(); });
//
// Any thread uses it; one at a time has it. It is made at the first use and never destroyed, so that it may be used while static
// objects are; what it refers to should therefore be held weakly.

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "weft/core/error.hpp"

namespace weft::detail {

/// A number that a process shares with none that it has forked, or that forked it, through fork() of the C library. Costs a load.
/// @throws Error (system) only at the first call
std::uint64_t process_generation();

/// The process that made an object. What reaches beyond its own memory, a peer's or a library's, is not for a child that is forked
/// afterwards: the object says so when it is used there, and its end leaves alone what the parent still uses.
class Origin {
 public:
  Origin() : generation_(process_generation()), pid_(getpid()) {}
  /// False in a child. Costs a load.
  bool is_here() const { return generation_ == process_generation(); }
  int pid() const { return pid_; }
  /// "process 99 uses the communicator of process 77, rank 1 of 4, which forked it", for Error (usage).
  /// @param owner more of the parent, if anything
  Error misuse(std::string_view what, const std::string& advice, ErrorContext where = {},
               std::string_view owner = {}) const;

 private:
  std::uint64_t generation_;
  int pid_;
};

struct Kept {
  Kept() = default;
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  virtual ~Kept() = default;
  Kept* before = nullptr;
};
void keep(Kept* one) noexcept;

/// Never ends it, and is known to leak checkers: for what a child has from its parent, such as a thread that is not there.
template <class T>
void keep_for_ever(T&& value) {
  struct Value final : Kept {
    explicit Value(T&& given) : held(std::forward<T>(given)) {}
    std::remove_cvref_t<T> held;
  };
  keep(new Value(std::forward<T>(value)));
}

template <class Table>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  /// Calls `use` with the table, behind its lock. @returns what `use` does
  template <class Use>
  auto use(Use&& use) {
    Held& held = of_this_process();
    const std::lock_guard lock(held.mutex);
    return use(held.table);
  }

 private:
  struct Held {
    std::uint64_t generation;
    Held* inherited;  ///< of the parent: never used again, and known to leak checkers
    std::mutex mutex{};
    Table table{};
  };

  Held& of_this_process() {
    const std::uint64_t mine = process_generation();
    Held* there = held_.load(std::memory_order_acquire);
    while (there == nullptr || there->generation != mine) {
      auto* made = new Held{mine, there};
      if (held_.compare_exchange_strong(there, made, std::memory_order_acq_rel)) return *made;
      delete made;
    }
    return *there;
  }

  std::atomic<Held*> held_{nullptr};
};

}  // namespace weft::detail
