// What one more communicator costs: the time of a split and of a second connect(), beside one round of the rendezvous they meet by,
// and the address space that they take.
//
//   weft-launch -n 2 bench_groups [ROUNDS]      default: 50; the ranks meet by a file
//   mpirun -n 2 bench_groups                    by MPI
//
// They run in turn; medians over the rounds, of the rank that took longest in each. "address_space_mib" is how much the process's
// VmSize has grown. The first sum is an all_reduce of 1 MiB of private memory, which touches all of the communicator's memory.

#include <optional>

#include "process_memory.hpp"
#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

std::vector<int> everybody(const World& world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

/// The median over rounds of what the slowest rank took, in milliseconds.
double slowest_ms(Communicator& comm, std::vector<double>& seconds) {
  Stream stream;
  const View all(seconds.data(), static_cast<std::int64_t>(seconds.size()), DataType::f64);
  comm.all_reduce(all, ReduceOp::max, stream).wait();
  return 1e3 * bench::median(seconds);
}

/// One way to get a communicator, and its figures.
struct Way {
  const char* name;
  std::function<Communicator()> make;
  std::vector<double> made{};    // seconds
  std::vector<double> summed{};  // its first all_reduce
  std::vector<double> closed{};  // its end
  std::vector<double> mapped{};  // MiB of address space
};

int run(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
  const World world = World::from_environment();
  const auto meeting = world.rendezvous()->split(everybody(world));
  const double before = bench::status_mib("VmSize:");
  Communicator comm = connect(world);
  const double first = bench::status_mib("VmSize:") - before;
  Stream stream;
  Buffer data = Buffer::on_host(DataType::f32, 1 << 18);  // private: staged
  std::vector<double> met;
  std::vector<Way> ways{{"split", [&] { return *comm.split(0); }},
                        {"connect", [&] {
                           const auto own = meeting->split(everybody(world));
                           return connect(World::over(own, {}, world.environment()));
                         }}};
  for (int round = 0; round <= rounds; ++round) {
    comm.barrier(stream).wait();
    const double seconds =
        bench::seconds_of([&] { meeting->all_gather("", "a round", Deadline::in(world.connect_timeout())); });
    if (round > 0) met.push_back(seconds);
    for (Way& way : ways) {
      comm.barrier(stream).wait();
      const double then = bench::status_mib("VmSize:");
      std::optional<Communicator> made;
      const double to_make = bench::seconds_of([&] { made = way.make(); });
      const double to_sum =
          bench::seconds_of([&] { made->all_reduce(data.view(), ReduceOp::sum, stream).wait(); });
      const double grown = bench::status_mib("VmSize:") - then;
      comm.barrier(stream).wait();
      const double to_close = bench::seconds_of([&] { made.reset(); });
      if (round == 0) continue;  // a warm-up
      way.made.push_back(to_make);
      way.summed.push_back(to_sum);
      way.closed.push_back(to_close);
      way.mapped.push_back(grown);
    }
  }
  const bool prints = comm.rank() == 0;
  const double round_ms = slowest_ms(comm, met);
  if (prints)
    std::printf("{\"ranks\": %d, \"rendezvous_ms\": %.3f, \"first_address_space_mib\": %.1f", comm.size(),
                round_ms, first);
  for (Way& way : ways) {
    const double made = slowest_ms(comm, way.made);
    const double summed = slowest_ms(comm, way.summed);
    const double closed = slowest_ms(comm, way.closed);
    if (prints)
      std::printf(
          ", \"%s\": {\"ms\": %.3f, \"first_sum_ms\": %.3f, \"close_ms\": %.3f, \"address_space_mib\": %.1f}",
          way.name, made, summed, closed, bench::median(way.mapped));
  }
  if (prints) std::printf("}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
