// Ranks that cannot go on, as docs/hangs.md shows them: rank 1 of two does something else in its 11th step.
//   weft-launch -n 2 hang forget|extra|die|sleep

#include <csignal>
#include <iostream>
#include <string>
#include <thread>
#include <weft/weft.hpp>

int main(int argc, char** argv) try {
  using namespace weft;
  const std::string kind = argc > 1 ? argv[1] : "";
  Communicator comm = connect(World::from_environment());
  const ParamId slope{0}, offset{1};
  GradientReducer reducer(comm, {DataType::f32, {{"slope", 1}, {"offset", 1}}});
  Stream compute;
  for (int step = 0; step < 12; ++step) {
    const bool other = step == 10 && comm.rank() == 1;
    if (other && kind == "die") std::raise(SIGKILL);
    if (other && kind == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    if (other && kind == "extra") comm.barrier(compute).wait();
    reducer.begin_step();
    reducer.mark_ready(offset, compute);
    if (!other || kind != "forget") reducer.mark_ready(slope, compute);
    reducer.finish_step(compute);
    compute.synchronize();
  }
} catch (const weft::Error& error) {
  std::cerr << std::string(error.what()) + "\n";  // one piece: other ranks write there, too
  return weft::exit_code(error.kind());
}
