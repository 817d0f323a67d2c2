#pragma once
// The threads of a process that drive what no caller waits for, and run the callbacks of futures.
//
// One thread makes the watched works progress. It sleeps while there are none, and leaves those alone that a
// caller waits for. Results are handed to futures in the order of calls, per group, so that callbacks which
// issue operations do it in one order on all ranks. Callbacks run on a thread of their own, for they may
// wait: what a callback issues has its callbacks on the next thread, so that waiting for it ends. Threads
// start when they are first needed, and end with the last group.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "torch/distributed/work.hpp"

namespace weft::distributed {

/// 0 for threads of the program; n + 1 in callbacks of what was called at level n.
int callback_level();

/// Calls it without Python's lock, if this thread has that: others may need it to end.
void without_python(const std::function<void()>& call);

class Progress {
 public:
  /// The one of this process; made with the first group.
  static std::shared_ptr<Progress> of_process();
  /// At the end of the program: ends the threads, whatever is under way.
  static void stop_all();
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void watch(const TorchWorkPtr& work);
  /// It is over, and no future waits for its result.
  void forget(const TorchWork& work);
  /// A work is over, or has lost its waiter. @returns false where the threads have ended
  bool look_again();
  /// Lets the thread of callbacks resolve the future of a work that is over.
  void call_back(const TorchWorkPtr& work);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  void stop();
  void end_threads();
};

}  // namespace weft::distributed
