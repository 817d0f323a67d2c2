// How much communication between nodes slows computation at the same time: matrix products on every rank,
// alone and during all_reduces on the communicator's progress stream.
//
//   mpirun -n 2 bench_overlap [MIB [REPEATS]]        default: 64 MiB, 3 times
//
// It assumes that all ranks share one machine, like the hosts of launchers/cluster.sh: the processor seconds
// of a transfer are those of the whole machine, kernel included, while nothing else runs. The rest of the
// slowdown is waiting that kept a core busy.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <vector>

#include "program.hpp"
#include "weft-scaling/gpt/math/blas.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Busy processor seconds of the machine so far.
double machine_seconds() {
  std::ifstream stat("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0;
  stat >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts;
  return (user + nice + system + interrupts + soft_interrupts) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

class Products {
 public:
  Products() : a_(n * n, 1.0F), b_(n * n, 0.5F), c_(n * n) {}
  void one() {
    examples::gemm(examples::Op::plain, examples::Op::plain, n, n, n, 1.0F, a_.data(), n, b_.data(), n, 0.0F,
                   c_.data(), n);
  }
  /// Products per second until `over`.
  template <class Over>
  std::int64_t run_until(Over over) {
    std::int64_t count = 0;
    for (; !over(); ++count) one();
    return count;
  }

 private:
  static constexpr int n = 256;
  std::vector<float> a_, b_, c_;
};

double total(Communicator& comm, double value) {
  Stream stream;
  comm.all_reduce(View(std::span(&value, 1)), ReduceOp::sum, stream).wait();
  return value;
}

int run(int argc, char** argv) {
  const auto mib = argc > 1 ? std::atoll(argv[1]) : 64;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 3;
  examples::use_one_blas_thread();
  const World world = World::from_environment();
  Communicator comm = connect(world);
  Buffer data = comm.allocate(DataType::f32, mib * (std::int64_t{1} << 20) / 4);
  Stream wire = comm.progress_stream();
  Stream stream;
  const auto transfer = [&] { return comm.all_reduce(data.view(), ReduceOp::sum, wire); };
  transfer().wait();

  Products products;
  comm.barrier(stream).wait();
  auto begin = Clock::now();
  const auto alone = static_cast<double>(products.run_until([&] { return seconds_since(begin) > 2; }));
  const double alone_rate = total(comm, alone / seconds_since(begin));

  comm.barrier(stream).wait();
  begin = Clock::now();
  double processors = machine_seconds();
  for (int i = 0; i < repeats; ++i) transfer().wait();
  const double transfer_seconds = seconds_since(begin);
  comm.barrier(stream).wait();
  processors = machine_seconds() - processors;

  comm.barrier(stream).wait();
  begin = Clock::now();
  double done = 0;
  for (int i = 0; i < repeats; ++i) {
    const Work work = transfer();
    done += static_cast<double>(products.run_until([&] { return work.done(); }));
  }
  const double beside_seconds = seconds_since(begin);
  const double beside_rate = total(comm, done / beside_seconds);

  const double cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  const double left = 1 - processors / (cores * beside_seconds);  // of the machine, for products
  const double loss = 1 - beside_rate / (alone_rate * left);
  if (comm.rank() == 0) {
    std::printf(
        "{\"ranks\": %d, \"mib\": %lld, \"transfer_seconds\": %.3f, \"transfer_processor_seconds\": %.3f, "
        "\"beside_seconds\": %.3f, \"products_alone_per_second\": %.0f, \"products_beside_per_second\": "
        "%.0f, "
        "\"loss_beyond_transfer\": %.3f}\n",
        comm.size(), static_cast<long long>(mib), transfer_seconds / repeats, processors / repeats,
        beside_seconds / repeats, alone_rate, beside_rate, loss);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
