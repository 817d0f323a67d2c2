// From the start of the processes to the end of their first all_reduce, and under mpirun from the end of MPI_Init: the slowest rank's time.
//
//   weft-launch -n 4 bench_first_sum
//   launchers/cluster.sh run -np 4 bench_first_sum
//
// A process's start is what the kernel says, in steps of 10 ms.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include "program.hpp"
#include "weft/weft.hpp"
#if WEFT_HAS_MPI
#include "weft/interop/mpi.hpp"
#endif

namespace {

using namespace weft;

/// Seconds since this machine was started.
double now() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The 22nd field of proc(5)'s stat; the second is a name in brackets.
double started() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int measure(const World& world, double initialised) {
  Communicator comm = connect(world);
  Stream stream;
  Buffer one = comm.allocate(DataType::f32, 1);
  comm.all_reduce(one.view(), ReduceOp::sum, stream);
  stream.synchronize();
  double seconds[2]{now() - started(), now() - initialised};
  comm.all_reduce(View(std::span(seconds)), ReduceOp::max, stream);
  stream.synchronize();
  if (comm.rank() != 0) return 0;
  std::printf("%d ranks, %s: first all_reduce ended %.0f ms after the processes started", comm.size(),
              std::string(comm.backend()).c_str(), 1e3 * seconds[0]);
  if (initialised > 0) std::printf(", %.1f ms after MPI_Init", 1e3 * seconds[1]);
  std::printf("\n");
  return 0;
}

int run(int argc, char** argv) {
#if WEFT_HAS_MPI
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    const double initialised = now();
    const int status = measure(world_from_mpi(MPI_COMM_WORLD), initialised);
    MPI_Finalize();
    return status;
  }
#endif
  (void)argc;
  (void)argv;
  return measure(World::from_environment(), 0);
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
