// Ranks that work until one of them is killed: a thread of rank VICTIM sends its process SIGKILL at a random
// moment, which it writes down first; every survivor says what it was told, and how long that took.
//
//   victim VICTIM SEED FILE     ends with 0 where a survivor's error names the victim, 1 where it does not

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "weft/weft.hpp"

namespace {

using namespace weft;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void die_at_some_moment(std::uint64_t seed, const std::string& file) {
  std::mt19937_64 random(seed);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
  {
    std::ofstream out(file);
    out.precision(17);
    out << now() << std::endl;
  }
  kill(getpid(), SIGKILL);
}

/// All kinds of operations, of sizes that take microseconds to milliseconds, until one fails.
void work(Communicator& comm, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Stream stream;
  Buffer shared = comm.allocate(DataType::f32, 1 << 20);
  std::vector<float> own(1 << 16);
  for (;;) {
    const auto bits = static_cast<int>(random() % 21);
    const std::int64_t count = std::int64_t{1} << bits;
    switch (random() % 4) {
      case 0:
        comm.all_reduce(shared.view().slice(0, count), ReduceOp::sum, stream).wait();
        break;
      case 1:
        comm.broadcast(shared.view().slice(0, count), static_cast<int>(random() % 2), stream).wait();
        break;
      case 2:
        comm.all_reduce(View(std::span(own)).slice(0, std::min<std::int64_t>(count, 1 << 16)), ReduceOp::max,
                        stream)
            .wait();
        break;
      default:
        Group(comm)
            .send(shared.view().slice(0, count / 2), (comm.rank() + 1) % comm.size())
            .receive(shared.view().slice(count / 2, count / 2), (comm.rank() + comm.size() - 1) % comm.size())
            .start(stream)
            .wait();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: victim VICTIM SEED FILE\n");
    return 42;
  }
  const int victim = std::atoi(argv[1]);
  const std::uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  const std::string file = argv[3];
  try {
    const World world = World::from_environment();
    Communicator comm = connect(world);
    std::thread killer;
    if (comm.rank() == victim) killer = std::thread(die_at_some_moment, seed, file);
    try {
      work(comm, seed);
    } catch (const Error& error) {
      const double heard = now();
      double killed = heard;
      std::ifstream(file) >> killed;
      const bool named =
          std::string(error.what()).find("rank " + std::to_string(victim)) != std::string::npos;
      std::printf("survivor %d %s %.3f %s\n", comm.rank(), named ? "named" : "MISSED", heard - killed,
                  error.what());
      std::fflush(stdout);
      std::this_thread::sleep_for(
          std::chrono::milliseconds(500));  // mpirun ends all with the first that ends
      if (killer.joinable()) killer.join();
      _exit(named ? exit_code(error.kind()) : 1);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "victim: %s\n", error.what());
    return exit_code(error.kind());
  }
}
