#pragma once
// Pieces of work timed in turn, round after round, so that a change of the machine's speed affects all
// of them.
//
//   std::vector<Case> cases{{"moved alone", [&](int) { move(); }},
//                           {"step", [&](int round) { step(round); }}};
//   in_turn(cases, 15);
//   print_rates(cases, parameters * 1e-6, "M parameters/s");

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace weft::bench {

/// Runs on one core, so that the others stay free and caches stay warm.
inline void stay_on_one_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof(one), &one);  // refused where the process may not use it
}

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Sorts the values.
inline double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Case {
  std::string name;
  std::function<void(int round)> work;
  std::vector<double> seconds{};
};

/// Round 0 is a warm-up; `rounds` more are measured.
inline void in_turn(std::vector<Case>& cases, int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (Case& one : cases) {
      const double seconds = seconds_of([&] { one.work(round); });
      if (round > 0) one.seconds.push_back(seconds);
    }
  }
}

/// A line for each case: median, least and greatest rate. @param amount that one round works on, of `unit` a
/// second
inline void print_rates(std::vector<Case>& cases, double amount, const char* unit) {
  std::size_t longest = 0;
  for (const Case& one : cases) longest = std::max(longest, one.name.size());
  for (Case& one : cases) {
    const double middle = median(one.seconds);
    std::printf("%-*s %7.1f %s (%.1f to %.1f)\n", static_cast<int>(longest), one.name.c_str(),
                amount / middle, unit, amount / one.seconds.back(), amount / one.seconds.front());
  }
}

}  // namespace weft::bench
