#pragma once
// How to wait for another rank without stealing its core: spin for about a microsecond, then give the core
// away, then sleep in steps that grow to a quarter of a millisecond.
//
// Spinning finds a peer that is a cache miss away; yielding lets a peer that shares this core run; sleeping
// keeps a rank that waits for seconds (a longer backward pass elsewhere) from costing anything. One Backoff
// serves one wait.

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft {

class Backoff {
 public:
  void pause() {
    ++turn_;
    if (turn_ <= spins) {
      relax();
    } else if (turn_ <= spins + yields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(sleep_);
      if (sleep_ < longest_sleep) sleep_ *= 2;
    }
  }
  void reset() { *this = Backoff(); }
  /// Tells the core that this is a spin.
  static void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  static constexpr int spins = 64;
  static constexpr int yields = 2000;
  static constexpr std::chrono::microseconds longest_sleep{250};

  int turn_ = 0;
  std::chrono::microseconds sleep_{20};
};

}  // namespace weft
