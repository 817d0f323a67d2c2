// Ranks that train until one of them does something wrong, by a seed: leaves out a gradient, brings one too
// many, has its parameters in another order, brings one of another shape, dies, is slow, or issues an
// operation that the others do not. Every rank says what it heard and how long after, and whether that names
// the rank and the parameter.
//
//   fault SEED FOLDER [KIND [STEPS]]    ends with 0 when what this rank heard is right; KIND none: nothing

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "weft/weft.hpp"

namespace {

using namespace weft;
using namespace std::chrono_literals;

constexpr std::array<const char*, 7> kinds{"missing", "extra", "reordered", "reshaped",
                                           "dead",    "slow",  "diverged"};
struct Fault {
  std::string kind;
  int rank;
  int parameter;
  int step;
};

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Trial {
 public:
  Trial(Communicator comm, std::uint64_t seed, std::filesystem::path folder, const std::string& kind,
        int steps)
      : comm_(std::move(comm)), folder_(std::move(folder)), steps_(steps) {
    std::mt19937_64 random(seed);
    const auto up_to = [&](std::uint64_t below) { return static_cast<int>(random() % below); };
    for (int i = 0; i < 12; ++i)
      specs_.push_back({"layer." + std::to_string(i) + ".weight", 100 + up_to(20'000)});
    fault_ = {kinds[static_cast<std::size_t>(up_to(kinds.size()))],
              up_to(static_cast<std::uint64_t>(comm_.size())), up_to(12), 17 + up_to(10)};
    if (!kind.empty()) fault_.kind = kind;
    bucket_bytes_ = static_cast<std::size_t>(1000 + up_to(100'000));
  }

  /// @returns the exit status
  int run() {
    std::vector<std::string> reports;
    std::mutex mutex;
    log::set_sink([&](log::Level, std::string_view line) {
      const std::lock_guard lock(mutex);
      if (line.find("has waited") != std::string_view::npos) reports.emplace_back(line);
      std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    });
    std::printf("rank %d begins\n", comm_.rank());
    std::fflush(stdout);
    std::string heard;
    try {
      train();
    } catch (const Error& error) {
      heard = error.what();
    }
    const double delay = now() - moment();
    log::set_sink(nullptr);
    const bool is_right = fault_.kind == "none"   ? heard.empty() && reports.empty()
                          : fault_.kind == "slow" ? heard.empty() && only_the_slow_rank(reports)
                                                  : names(heard);
    for (const std::string& report : reports)
      std::printf("rank %d reported %s\n", comm_.rank(), report.c_str());
    std::printf("rank %d %s %s rank %d %s step %d after %.3f: %s\n", comm_.rank(),
                is_right ? "right" : "WRONG", fault_.kind.c_str(), fault_.rank, name().c_str(), fault_.step,
                delay, heard.c_str());
    std::fflush(stdout);
    wait_for_all();
    return is_right ? 0 : 1;
  }

 private:
  bool is_culprit() const { return comm_.rank() == fault_.rank; }
  std::string name() const { return specs_[static_cast<std::size_t>(fault_.parameter)].name; }
  bool is_now(const char* kind, int step) const {
    return fault_.kind == kind && fault_.step == step && is_culprit();
  }

  void train() {
    std::vector<ParamSpec> specs = specs_;
    if (fault_.kind == "reordered" && is_culprit()) {
      note_moment();
      const std::size_t at = static_cast<std::size_t>(std::min(fault_.parameter, 10));
      std::swap(specs[at], specs[at + 1]);
    }
    const ParamLayout layout(DataType::f32, specs);
    GradientReducer reducer(comm_, layout, {.buckets = BucketBytes{bucket_bytes_}});
    Stream compute;
    std::vector<float> gradient(40'000, static_cast<float>(comm_.rank()));
    for (int step = 0; step < steps_; ++step) {
      reducer.begin_step();
      if (is_now("slow", step)) std::this_thread::sleep_for(900ms);
      if (is_now("dead", step)) {
        note_moment();
        kill(getpid(), SIGKILL);
      }
      for (int parameter = 11; parameter >= 0; --parameter) {
        const ParamId id{parameter};
        const bool is_it = parameter == fault_.parameter;
        if (is_it) note_if(step, {"missing", "extra", "reshaped", "diverged"});
        if (is_it && is_now("missing", step)) continue;
        const std::int64_t count = layout.count(id) - (is_it && is_now("reshaped", step) ? 1 : 0);
        reducer.mark_ready(
            id, ConstView(std::span<const float>(gradient.data(), static_cast<std::size_t>(count))), compute);
        if (is_it && is_now("extra", step)) reducer.mark_ready(id, compute);
        if (is_it && is_now("diverged", step)) comm_.barrier(compute);
      }
      reducer.finish_step(compute);
      compute.synchronize();
      if (fault_.kind != "none") std::this_thread::sleep_for(1ms);
    }
  }

  void note_if(int step, std::initializer_list<const char*> some) const {
    for (const char* kind : some) {
      if (is_now(kind, step)) note_moment();
    }
  }
  void note_moment() const {
    std::ofstream out(folder_ / "moment.part");
    out.precision(17);
    out << now() << std::endl;
    out.close();
    std::filesystem::rename(folder_ / "moment.part", folder_ / "moment");
  }
  double moment() const {
    double when = now();
    std::ifstream(folder_ / "moment") >> when;
    return when;
  }

  /// The rank in any case, and what it did.
  bool names(const std::string& heard) const {
    const std::string rank = "rank " + std::to_string(fault_.rank);
    const auto has = [&](const std::string& words) { return heard.find(words) != std::string::npos; };
    if (!has(rank)) return false;
    if (fault_.kind == "dead") return has(rank + " (process") && has("died");
    if (fault_.kind == "diverged") return has(rank + " issued barrier");
    if (fault_.kind == "reordered")
      return has("layer." + std::to_string(std::min(fault_.parameter, 10)) + ".weight");
    return has(name());
  }

  bool only_the_slow_rank(const std::vector<std::string>& reports) const {
    if (is_culprit()) return reports.empty();
    const std::string rank = "s for rank " + std::to_string(fault_.rank);
    return !reports.empty() && std::ranges::all_of(reports, [&](const std::string& one) {
      return one.find(rank) != std::string::npos && one.find(", rank") == std::string::npos;
    });
  }

  // A launcher ends all ranks with the first that ends.
  void wait_for_all() const {
    std::ofstream(folder_ / ("heard-" + std::to_string(comm_.rank()))) << '\n';
    const int expected = comm_.size() - (fault_.kind == "dead" ? 1 : 0);
    for (int i = 0; i < 300; ++i) {
      int there = 0;
      for (int rank = 0; rank < comm_.size(); ++rank)
        there += std::filesystem::exists(folder_ / ("heard-" + std::to_string(rank))) ? 1 : 0;
      if (there == expected) return;
      std::this_thread::sleep_for(10ms);
    }
  }

  Communicator comm_;
  std::filesystem::path folder_;
  int steps_;
  std::vector<ParamSpec> specs_;
  Fault fault_;
  std::size_t bucket_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr, "usage: fault SEED FOLDER [KIND [STEPS]]\n");
    return 42;
  }
  try {
    FlightRecorder::dump_on_sigusr2();
    Trial trial(connect(World::from_environment()), std::strtoull(argv[1], nullptr, 10), argv[2],
                argc > 3 ? argv[3] : "", argc > 4 ? std::atoi(argv[4]) : 32);
    const int status = trial.run();
    std::fflush(stdout);
    _exit(status);  // MPI would wait for ranks that are no more
  } catch (const Error& error) {
    std::fprintf(stderr, "fault: %s\n", error.what());
    return exit_code(error.kind());
  }
}
