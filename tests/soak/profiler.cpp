// What libnccl-profiler-weft.so costs NCCL: operations through each of its interfaces, as NCCL calls it, from one thread; then random handles and
// events beside eight threads of operations.
//
//   soak_profiler SEED EVENTS    prints events a second of each interface; ends with 0 when sums are what was done

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "support/draw.hpp"
#include "unit/tools/weft-report/profiler/calling_nccl.hpp"
#include "weft-report/profiler/recorder.hpp"

namespace {

namespace test = weft::profiler::test;

/// Events of an operation of two channels: it starts and stops, and each channel starts, has a state, and stops.
double events_a_second(test::Release release, int events) {
  const test::CallingNccl nccl(release, "weft");
  if (!nccl.loaded()) {
    std::fprintf(stderr, "soak_profiler: libnccl-profiler-weft.so is not found\n");
    std::exit(70);
  }
  test::Communicator communicator(nccl, {.hash = 1, .ranks = 8, .rank = 3});
  const int each = (communicator.mask() & weft::profiler::event_kernel_channel) != 0 ? 8 : 6;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < events; i += each) communicator.run(communicator.enqueue({}), 1000, 2000);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return events / taken.count();
}

/// @return operations whose end was lost
std::uint64_t lost(unsigned seed, int events) {
  const auto recorder = std::make_unique<weft::profiler::Recorder>();
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread)
      threads.emplace_back([&, thread] {
        weft::test::Draw draw(seed + static_cast<unsigned>(thread));
        std::uint64_t communicator = recorder->add({.hash = 1, .ranks = 8, .rank = thread});
        for (int i = 0; i < events / 64; ++i) {
          const std::uint64_t operation =
              recorder->start(communicator, {.kind = weft::profiler::Kind::all_reduce, .parts = 2});
          const std::uint64_t first = recorder->start_part(operation);
          recorder->stop(operation);
          // Of no communicator that there is: their numbers are below 2^20.
          const std::uint64_t any = static_cast<std::uint64_t>(draw.below(1 << 30)) | std::uint64_t{0x5fffff}
                                                                                          << 40;
          recorder->stop(any);
          recorder->time_part(any, 1);
          const std::uint64_t second = recorder->start_part(operation);
          recorder->stop(second);
          recorder->stop(first);
          if (draw.below(1000) == 0) {
            recorder->remove(communicator);
            communicator = recorder->add({.hash = 1, .ranks = 8, .rank = thread});
          }
        }
      });
  }
  const weft::profiler::Totals totals = recorder->totals();
  const auto& sums = totals.sums[static_cast<std::size_t>(weft::profiler::Kind::all_reduce)];
  return static_cast<std::uint64_t>(8 * (events / 64)) - sums.ended;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: soak_profiler SEED EVENTS\n");
    return 42;
  }
  const int events = std::atoi(argv[2]);
  for (const test::Release release : test::releases)
    std::printf("v%d: %.0f events a second on one core\n", static_cast<int>(release),
                events_a_second(release, events));
  const std::uint64_t missing = lost(static_cast<unsigned>(std::atoi(argv[1])), events);
  std::printf("profiler: %d events of each interface, %llu operations lost at 8 threads\n", events,
              static_cast<unsigned long long>(missing));
  return missing == 0 ? 0 : 1;
}
