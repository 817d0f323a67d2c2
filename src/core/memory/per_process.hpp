#pragma once
// A table that a process has once, such as that of the memory it has mapped. A child after fork() begins with an empty one: what
// its parent has reached, owns or guards is the parent's, and the parent's other threads, which may hold a lock, are not there.
//
//   constinit PerProcess<std::map<int, std::weak_ptr<Peer>>> peers;       // in a source, in no header
//   auto peer = peers.use([&](auto& known) { return known[pid].lock(); });
//
// Any thread uses it; one at a time has it. It is made at the first use and never destroyed, so that it may be used while static
// objects are; what it refers to should therefore be held weakly.

#include <atomic>
#include <cstdint>
#include <mutex>

namespace weft::detail {

/// A number that a process shares with none that it has forked, or that forked it, through fork() of the C library. Costs a load.
/// @throws Error (system) only at the first call
std::uint64_t process_generation();

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
