#pragma once
// Notices when a thread calls an object while another is in a call of it: for objects that one thread uses at a time.
//
//   const auto turn = users_.enter("GradientReducer", "mark_ready");    // first in each call; @throws Error (usage)
//
// Threads may take turns, and a call may call others of the same object. Calls that do not overlap are ordered by it, so that
// nothing but an overlap can go wrong. Price: a compare-and-swap and two stores a call.

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

#include "weft/core/error.hpp"

namespace weft::detail {

class OneThread {
 public:
  class [[nodiscard]] Turn {
   public:
    explicit Turn(OneThread& users) : users_(users) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { users_.leave(); }

   private:
    OneThread& users_;
  };

  Turn enter(const char* object, const char* call) {
    const long self = this_thread();
    long there = 0;
    if (!user_.compare_exchange_strong(there, self, std::memory_order_acquire) && there != self)
      refuse(object, call, self, there);
    if (depth_++ == 0) call_.store(call, std::memory_order_relaxed);
    return Turn(*this);
  }

 private:
  static long this_thread() {
    thread_local const long number = syscall(SYS_gettid);
    return number;
  }
  static std::string named(long thread) {
    std::string name;
    std::ifstream("/proc/self/task/" + std::to_string(thread) + "/comm") >> name;
    return text("thread ", thread, name.empty() ? "" : " (" + name + ")");
  }
  [[noreturn]] void refuse(const char* object, const char* call, long self, long there) const {
    const char* const inside = call_.load(std::memory_order_relaxed);
    throw Error(ErrorKind::usage,
                text("two threads use one ", object, " at once: ", named(self), " calls ", call, " while ",
                     named(there), " is in ", inside != nullptr ? inside : "another call"),
                "let one thread use it, or let threads take turns behind a lock");
  }
  void leave() {
    if (--depth_ == 0) user_.store(0, std::memory_order_release);
  }

  std::atomic<long> user_{0};
  std::atomic<const char*> call_{nullptr};
  int depth_ = 0;  // of the user's calls
};

}  // namespace weft::detail
