// A step's account with an inline wire beside that with a thread: what the link carried must not depend on who carries it.
//
//   mpirun -n 2 bench_account [STEPS]        default: 20 steps each
//
// Six trainings: the parameters of three models, plain and as fp16. Their backward sleeps instead of computing, as long as the
// model computes at a fixed speed, so that cores stay free for a thread: where each core computes, a thread's transfer also waits for a core,
// and the account of the two differs by that. Both wires are used in turns, each in every step's half of a round.
// A line of JSON for each training, of rank 0; its exit status is 1 if an overlap is longer than the link was busy.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "models.hpp"
#include "program.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

constexpr double backward_seconds = 0.2;

bench::Model mlp() {
  bench::Model model{"mlp-8x1024", {}, {}};
  for (int layer = 0; layer < 8; ++layer) {
    model.add(text("layer", layer, ".weight"), {1024, 1024}, 32);
    model.add(text("layer", layer, ".bias"), {1024}, 32);
  }
  return model;
}

struct Wire {
  GradientReducer reducer;
  std::vector<double> link{};
  int longer = 0;  ///< overlaps that are longer than the link was busy
};

void step(Wire& wire, const std::vector<double>& ready, Stream& compute) {
  using Clock = std::chrono::steady_clock;
  wire.reducer.begin_step();
  const auto begin = Clock::now();
  for (std::size_t i = ready.size(); i-- > 0;) {  // the last parameter's gradient comes first
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(ready[i])));
    wire.reducer.mark_ready(ParamId{static_cast<int>(i)}, compute);
  }
  wire.reducer.finish_step(compute);
  compute.synchronize();
}

double median(std::vector<double> all) {
  std::ranges::sort(all);
  return all.empty() ? 0 : all[all.size() / 2];
}

int run(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 20;
  setenv("WEFT_PROGRESS", "inline", 1);  // what a reducer without a wire of its own uses
  Communicator comm = connect(World::from_environment());
  Stream compute;
  int longer = 0;
  for (const bench::Model& model : {mlp(), bench::resnet18(16), bench::resnet50(16)}) {
    std::vector<double> ready = model.ready_seconds(1);
    const double all = *std::ranges::max_element(ready);
    for (double& one : ready) one *= backward_seconds / all;
    for (const bool fp16 : {false, true}) {
      const auto reducer = [&](std::optional<Stream> wire) {
        return GradientReducer(comm, model.layout(),
                               {.buckets = BucketBytes{1 << 20},
                                .hook = fp16 ? codec_hook(fp16_codec()) : nullptr,
                                .wire = std::move(wire)});
      };
      Wire wires[2]{{reducer(std::nullopt)}, {reducer(Stream::queued())}};
      for (int i = 0; i < steps; ++i) {
        for (Wire& wire : wires) step(wire, ready, compute);
      }
      for (Wire& wire : wires) {
        for (const StepAccount& one : wire.reducer.account().steps) {
          wire.link.push_back(one.link_seconds);
          if (one.overlap_seconds > one.link_seconds) ++wire.longer;
        }
        longer += wire.longer;
      }
      if (comm.rank() == 0)
        std::printf(
            "{\"model\": \"%s\", \"fp16\": %s, \"link_ms\": {\"inline\": %.2f, \"thread\": %.2f}, \"ratio\": "
            "%.3f, \"longer\": %d}\n",
            model.name.c_str(), fp16 ? "true" : "false", 1e3 * median(wires[0].link),
            1e3 * median(wires[1].link), median(wires[0].link) / median(wires[1].link),
            wires[0].longer + wires[1].longer);
    }
  }
  return longer > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
