#pragma once
// How to wait for another rank without taking its core away. Spin for about a microsecond, then yield the
// core 2000 times, then sleep in steps that grow to a quarter of a millisecond. In place of the sleep a task
// may rest in a way that a peer can end.
//
// Spinning finds a peer that is a cache miss away; yielding lets a peer that shares this core run; sleeping
// makes a wait of seconds (for a longer backward pass elsewhere) cost nothing. One Backoff serves one wait.
//
//   for (Backoff backoff; !ready();) backoff.pause();

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft {

class Backoff {
 public:
  void pause() {
    pause([](std::chrono::microseconds at_most) { sleep(at_most); });
  }
  /// @param rest replaces the sleep: it is called with the longest time to rest, and may return earlier
  template <class Rest>
  void pause(Rest rest) {
    ++turn_;
    if (turn_ <= spins) {
      relax();
    } else if (turn_ <= spins + yields) {
      std::this_thread::yield();
    } else {
      rest(rest_);
      if (rest_ < longest_rest) rest_ *= 2;
    }
  }
  /// Sleeps for `at_most`, but for a quarter of a millisecond at the longest, since nothing ends the sleep.
  static void sleep(std::chrono::microseconds at_most) {
    std::this_thread::sleep_for(std::min(at_most, longest_sleep));
  }
  void reset() { *this = Backoff(); }
  /// Tells the processor that this thread spins.
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();  // <immintrin.h> has it too, and takes a third of a second to read
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  static constexpr int spins = 64;
  static constexpr int yields = 2000;
  static constexpr std::chrono::microseconds longest_sleep{250};
  static constexpr std::chrono::microseconds longest_rest{2000};

  int turn_ = 0;
  std::chrono::microseconds rest_{20};
};

}  // namespace weft
