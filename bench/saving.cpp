// What a save behind the training costs it: gpt-ref in a stage of ZeRO, steps without a save, steps beside one, and a save that blocks, in turn.
//
//   weft-launch -n 2 bench_saving FOLDER [ROUNDS [STAGE]]      default: 12 rounds, stage 2
//
// "stop" is how long the training does nothing else: state() and begin(), and the optimizer's wait before it changes what is not written yet.
// "beside" are the steps after begin(): the thread that writes takes time of their core. Figures are the slowest rank's; "extra memory" is
// the peak of resident memory beyond that of steps without a save, beside the bytes that a rank saves.

#include <cstdlib>
#include <filesystem>

#include "process_memory.hpp"
#include "program.hpp"
#include "rounds.hpp"
#include "weft-scaling/gpt/trainer/trainer.hpp"
#include "weft/checkpoint/saver.hpp"

namespace {

using namespace weft;

double slowest(Communicator comm, double mine) {
  Stream stream;
  comm.all_reduce(View(std::span(&mine, 1)), ReduceOp::max, stream).wait();
  return mine;
}

struct Series {
  std::vector<double> plain, begun, waited, first, second, blocked, plain_mib, beside_mib;
};

std::int64_t bytes_of(const checkpoint::State& state) {
  std::int64_t bytes = 0;
  for (const auto& piece : state.pieces)
    bytes += piece.count() * static_cast<std::int64_t>(size_of(piece.dtype()));
  return bytes;
}

/// Steps of a training, and what a save does to them.
class Saving {
 public:
  Saving(Communicator comm, const examples::Text& text, const std::string& folder, int stage)
      : comm_(std::move(comm)),
        trainer_(comm_, examples::model_spec("gpt-ref"), text,
                 {.share = {comm_.rank(), comm_.size()}, .steps = 10000, .sharding = {.stage = stage}}),
        saver_(comm_, folder, {.keep_last = 1}) {}

  /// @param into where its times go; null: a warm-up
  void round(Series* into) {
    Series times;
    bench::forget_peak();
    for (int i = 0; i < 3; ++i) times.plain.push_back(step());
    times.plain_mib.push_back(slowest(comm_, bench::status_mib("VmHWM:")));
    bench::forget_peak();
    double waited = 0;
    times.begun.push_back(timed([&] { begin(waited); }));
    times.first.push_back(step());
    times.waited.push_back(slowest(comm_, waited));
    times.second.push_back(step());
    saver_.finish();
    times.beside_mib.push_back(slowest(comm_, bench::status_mib("VmHWM:")));
    times.plain.push_back(step());
    times.blocked.push_back(timed([&] {
      const checkpoint::State state = trainer_.optimizer().state(trainer_.compute());
      saver_.save(++number_, state.pieces, state.values);
    }));
    if (into == nullptr) return;
    for (const auto part : {&Series::plain, &Series::begun, &Series::waited, &Series::first, &Series::second,
                            &Series::blocked, &Series::plain_mib, &Series::beside_mib})
      (into->*part).insert((into->*part).end(), (times.*part).begin(), (times.*part).end());
  }
  std::int64_t saved_bytes() const { return saved_bytes_; }

 private:
  double timed(const std::function<void()>& work) {
    comm_.barrier(Stream()).wait();
    return slowest(comm_, bench::seconds_of(work));
  }
  double step() {
    return timed([&] { trainer_.step(); });
  }
  void begin(double& waited) {
    checkpoint::State state = trainer_.optimizer().state(trainer_.compute());
    saved_bytes_ = bytes_of(state);
    const auto hook = state.before_change;
    saver_.begin(++number_, std::move(state));
    *hook = [release = std::move(*hook), &waited] { waited = bench::seconds_of(release); };
  }

  Communicator comm_;
  examples::Trainer<float> trainer_;
  checkpoint::Saver saver_;
  std::int64_t number_ = 0;
  std::int64_t saved_bytes_ = 0;
};

void print(Series& all, std::int64_t bytes) {
  const double plain = bench::median(all.plain);
  const auto line = [&](const char* name, std::vector<double>& seconds, double less) {
    const double middle = bench::median(seconds);
    std::printf("%-30s %8.2f ms (%.2f to %.2f), %6.2f %% of a step\n", name, middle * 1e3,
                seconds.front() * 1e3, seconds.back() * 1e3, (middle - less) / plain * 100);
  };
  std::vector<double> stop;
  for (std::size_t i = 0; i < all.begun.size(); ++i) stop.push_back(all.begun[i] + all.waited[i]);
  line("a step without a save", all.plain, 0);
  line("stop: state() and begin()", all.begun, 0);
  line("stop: wait before the update", all.waited, 0);
  line("stop, both", stop, 0);
  line("first step beside, more by", all.first, plain);
  line("second step beside, more by", all.second, plain);
  line("a save that blocks", all.blocked, 0);
  std::printf("extra memory %.1f MiB, a rank saves %.1f MiB\n",
              bench::median(all.beside_mib) - bench::median(all.plain_mib),
              static_cast<double>(bytes) / (1 << 20));
}

int run(int argc, char** argv) {
  if (argc < 2) throw Error(ErrorKind::usage, "bench_saving FOLDER [ROUNDS [STAGE]]");
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 12;
  const int stage = argc > 3 ? std::atoi(argv[3]) : 2;
  const std::string folder = text(argv[1], "/bench_saving");
  Communicator comm = connect(World::from_environment());
  const auto read =
      examples::Text::read("/usr/share/common-licenses", examples::model_spec("gpt-ref").sequence_bytes());
  Series all;
  {
    Saving saving(comm, read, folder, stage);
    for (int i = 0; i <= rounds; ++i) saving.round(i == 0 ? nullptr : &all);
    if (comm.rank() == 0) print(all, saving.saved_bytes());
  }
  if (comm.rank() == 0) std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
