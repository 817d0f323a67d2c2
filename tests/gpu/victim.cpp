// One of several ranks that sum for ever; the last kills itself. What the others say, and how soon, is the
// test.

#include <csignal>
#include <iostream>

#include "weft/weft.hpp"

int main() {
  try {
    const auto world = weft::World::from_environment();
    auto comm = weft::connect(world);
    weft::Stream stream(comm.device());
    weft::Buffer data = comm.allocate(weft::DataType::f32, 1 << 20);
    for (int step = 0; step < 10'000; ++step) {
      if (step == 20 && comm.rank() == comm.size() - 1) std::raise(SIGKILL);
      comm.all_reduce(data.view(), weft::ReduceOp::sum, stream).wait();
    }
    std::cerr << "nobody heard\n";
    return 1;
  } catch (const weft::Error& error) {
    std::cerr << error.what() << '\n';
    return weft::exit_code(error.kind());
  }
}
