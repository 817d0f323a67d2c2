// One of several ranks that sum on their devices; one of them fails on the way. What the others say, and how soon, is the test.
//   gpu_victim [HOW [RANK [STEP]]]    HOW: kill (itself, with SIGKILL), stop (SIGSTOP), disagree (it sums less), leave, wait (for a signal from
//                                     outside), none; RANK: the last; STEP: 20

#include <csignal>
#include <iostream>
#include <string>

#include "weft/weft.hpp"

namespace {

using namespace weft;

void sum(const std::string& how, int victim, int at_step) {
  auto comm = connect(World::from_environment());
  if (victim < 0) victim = comm.size() - 1;
  Stream stream(comm.device());
  Buffer data = comm.allocate(DataType::f32, 1 << 14);
  for (int step = 0; step < (how == "none" ? 2 * at_step : 10'000); ++step) {
    View view = data.view();
    if (step == at_step && comm.rank() == victim) {
      std::cerr << "now" << std::endl;  // NOLINT(performance-avoid-endl): before the signal
      if (how == "kill") std::raise(SIGKILL);
      if (how == "stop") std::raise(SIGSTOP);
      if (how == "leave") return;
      if (how == "disagree") view = view.slice(0, 1 << 10);
    }
    comm.all_reduce(view, ReduceOp::sum, stream).wait();
  }
  if (how != "none") throw Error(ErrorKind::internal, "nobody heard");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    sum(argc > 1 ? argv[1] : "kill", argc > 2 ? std::stoi(argv[2]) : -1, argc > 3 ? std::stoi(argv[3]) : 20);
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return exit_code(error.kind());
  }
}
