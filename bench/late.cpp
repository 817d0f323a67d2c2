// The cost of waiting for a late rank: how much processor time the others use meanwhile, and, on one node, how long after its
// arrival they continue.
//
//   mpirun -n 2 bench_late [MILLISECONDS [REPEATS]]        default: 20 ms late, 100 times
//   launchers/cluster.sh run --launcher weft -np 2 bench_late 10000 1
//
// Ranks of one node share a clock. The last rank is the late one, and sleeps, so a core is free for it.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include "program.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int run(int argc, char** argv) {
  const std::chrono::milliseconds late(argc > 1 ? std::atoi(argv[1]) : 20);
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 100;
  const World world = World::from_environment();
  Communicator comm = connect(world);
  Stream stream;
  Buffer moment = comm.allocate(DataType::f64, 1);
  double& came = moment.view().as<double>()[0];
  std::vector<double> delays;
  double used = 0;
  for (int i = 0; i < repeats; ++i) {
    comm.barrier(stream).wait();
    const double before = now(CLOCK_PROCESS_CPUTIME_ID);
    if (comm.rank() == comm.size() - 1) {
      std::this_thread::sleep_for(late);
      came = now(CLOCK_MONOTONIC);
    }
    comm.broadcast(moment.view(), comm.size() - 1, stream).wait();
    delays.push_back(now(CLOCK_MONOTONIC) - came);
    used += now(CLOCK_PROCESS_CPUTIME_ID) - before;
  }
  std::ranges::sort(delays);
  if (comm.rank() == 0) {
    std::printf("{\"ranks\": %d, \"late_ms\": %lld, ", comm.size(), static_cast<long long>(late.count()));
    if (comm.topology().nodes() == 1)  // whose ranks share a clock
      std::printf("\"delay_us\": {\"median\": %.1f, \"p99\": %.1f}, ", 1e6 * delays[delays.size() / 2],
                  1e6 * delays[delays.size() * 99 / 100]);
    std::printf("\"core_share_while_waiting\": %.4f}\n",
                used / (static_cast<double>(repeats) * std::chrono::duration<double>(late).count()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
