#pragma once
// Functions given to Event::then() whose events are done. They run where no lock of weft is held and no task is at work.
//
// A thread finds an event done in the middle of something: it advances a stream's queue, or asks a device under a lock. What
// falls due then is kept in a list of that thread, and runs when the outermost DueCalls of the thread ends.

#include <functional>
#include <utility>

#include "weft/core/recycled.hpp"

namespace weft::detail {

/// One function: in the list of its event, then in that of a thread.
struct DueCall : Recycled {
  explicit DueCall(std::function<void()> call) : function(std::move(call)) {}
  std::function<void()> function;
  DueCall* next = nullptr;
};

/// Lives where a lock is held or a task runs, and was made before that began.
class DueCalls {
 public:
  DueCalls() noexcept { ++mine_.depth; }
  ~DueCalls() {
    if (--mine_.depth == 0 && mine_.first != nullptr) run_all();
  }
  DueCalls(const DueCalls&) = delete;
  DueCalls& operator=(const DueCalls&) = delete;

  /// Whether this thread has some to run.
  static bool any() noexcept { return mine_.first != nullptr; }
  /// Takes over a list in the order of its calls. Runs it now where no DueCalls lives.
  static void add(DueCall* first) noexcept;
  /// An exception that leaves it is logged, for it has no caller.
  static void run(const std::function<void()>& function) noexcept;

 private:
  struct OfThread {
    int depth;
    DueCall* first;
    DueCall* last;
  };
  static void run_all() noexcept;

  static thread_local constinit OfThread mine_;
};

}  // namespace weft::detail
