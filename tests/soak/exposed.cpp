// Whether libnccl-profiler-weft.so and weft agree on how long gradients were on their way, and how much of that nothing hid.
//
//   soak_exposed SEED MODEL STEPS RANKS [PERCENT]
//
// Ranks are threads. Each trains MODEL (gpt-ref) over the fake NCCL, which tells the plug-in of each operation, with a stream of a fake CUDA that computes
// with the host's arithmetic. Compared, of each rank:
//   operations  those of the plug-in's trace with the buckets that weft gave to NCCL, and their elements: equal
//   busy        the time in which an operation runs, by the plug-in's trace, with that in which weft's account has a bucket of this rank on the wire
//   exposed     the part of this time in which no kernel runs on the compute stream, with the time that the compute stream waited by weft's account
// NCCL's events do not tell of kernels, which a job's profiler does: here kernels note themselves when they run. weft's own kernel that divides a bucket's sum
// by the number of ranks follows on NCCL's stream. It belongs to the bucket for weft, and its time is added to the plug-in's.
// All times are of one clock, and how long an operation takes is the fake's doing: sockets and sums on the host. What is found is that the plug-in's
// beginnings and ends are those of the operations; how late real NCCL tells of them no fake can say.
// Ends with 0 if operations are equal and have ended, none runs while weft has no bucket on the wire, and, with PERCENT, times of the median step differ by at most so much.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "support/draw.hpp"
#include "support/ranks_with_fakes.hpp"
#include "support/temporary_folder.hpp"
#include "unit/tools/weft-report/profiler/profiled_ranks.hpp"
#include "weft-scaling/gpt/math/host_math.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"
#include "weft/gradient/gradient_reducer.hpp"
#include "weft/interop/cuda.hpp"

namespace {

using namespace weft;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int warm_up = 2;  // steps that are not compared: memory is new

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The account's own unions (src/gradient/reducer/step_clock.cpp) are what is judged here: these are written apart.
struct Interval {
  double begin;
  double end;
};

/// As intervals that do not touch, rising.
std::vector<Interval> united(std::vector<Interval> all) {
  std::ranges::sort(all, {}, &Interval::begin);
  std::vector<Interval> result;
  for (const Interval& one : all) {
    if (result.empty() || one.begin > result.back().end) {
      result.push_back(one);
    } else {
      result.back().end = std::max(result.back().end, one.end);
    }
  }
  return result;
}
double total(const std::vector<Interval>& all) {
  double sum = 0;
  for (const Interval& one : all) sum += one.end - one.begin;
  return sum;
}
/// Seconds of `some` that are not in `others`; both as united() gives them.
double outside(const std::vector<Interval>& some, const std::vector<Interval>& others) {
  double sum = total(some);
  auto from = others.begin();
  for (const Interval& one : some) {
    while (from != others.end() && from->end <= one.begin) ++from;
    for (auto other = from; other != others.end() && other->begin < one.end; ++other)
      sum -= std::max(0.0, std::min(one.end, other->end) - std::max(one.begin, other->begin));
  }
  return sum;
}

/// Notes when a sum was divided, by device.
class NotingCuda final : public test::FakeCuda {
 public:
  void divide(View data, std::int64_t divisor, NativeStream stream) override {
    enqueue(stream, [=, this, device = data.device().index()] {
      const double begin = now();
      detail::on_host::divide(data, divisor);
      const std::lock_guard lock(noting_);
      divisions_[device].push_back({begin, now()});
    });
  }
  std::vector<Interval> divisions(int device) {
    const std::lock_guard lock(noting_);
    return divisions_[device];
  }

 private:
  std::mutex noting_;
  std::map<int, std::vector<Interval>> divisions_;
};

/// The host's arithmetic as kernels: each call is put on the stream, which notes when it computed.
class QueuedMath final : public examples::Math<float> {
 public:
  using Real = float;

  explicit QueuedMath(const Stream& stream) : stream_(stream), native_(native_handle(stream)) {}

  Device device() const override { return stream_.device(); }
  /// To be asked when the stream has done all.
  std::vector<Interval> take_kernels() { return std::exchange(kernels_, {}); }
  template <class Work>
  void launch(Work work) {
    stream_.run([this, work] {
      test::FakeCuda::enqueue(native_, [this, work] {
        const double begin = now();
        work();
        kernels_.push_back({begin, now()});
      });
    });
  }
  void finish() { stream_.synchronize(Deadline::in(300s)); }

  void put(std::span<const Real> from, Real* to) override {
    launch([=] { std::ranges::copy(from, to); });
    finish();
  }
  void get(const Real* from, std::span<Real> to) override {
    launch([=] { std::copy_n(from, to.size(), to.data()); });
    finish();
  }
  void put_bytes(std::span<const std::uint8_t> from, const Buffer& to) override {
    // Math says so: what a Buffer's bytes are is no part of it.
    auto* const place = const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(to.view().data()));
    launch([bytes = std::vector<std::uint8_t>(from.begin(), from.end()), place] {
      std::ranges::copy(bytes, place);
    });
  }
  void product(const examples::Product<Real>& one) override {
    launch([=] { host().product(one); });
  }
  void copy_row(const Real* row, Real* y, int rows, int width) override {
    launch([=] { host().copy_row(row, y, rows, width); });
  }
  void add_row(const Real* row, Real* y, int rows, int width) override {
    launch([=] { host().add_row(row, y, rows, width); });
  }
  void sum_rows(const Real* x, Real* sum, int rows, int width) override {
    launch([=] { host().sum_rows(x, sum, rows, width); });
  }
  void norm(const Real* x, const Real* gain, const Real* bias, Real* normalized, Real* scale, Real* y,
            int rows, int width) override {
    launch([=] { host().norm(x, gain, bias, normalized, scale, y, rows, width); });
  }
  void norm_input(const Real* dy, const Real* gain, const Real* normalized, const Real* scale,
                  const Real* through, Real* dx, int rows, int width) override {
    launch([=] { host().norm_input(dy, gain, normalized, scale, through, dx, rows, width); });
  }
  void norm_gain(const Real* dy, const Real* normalized, Real* dgain, int rows, int width) override {
    launch([=] { host().norm_gain(dy, normalized, dgain, rows, width); });
  }
  void embed(const std::uint8_t* tokens, const Real* table, const Real* positions, Real* x, int sequences,
             int context, int width) override {
    launch([=] { host().embed(tokens, table, positions, x, sequences, context, width); });
  }
  void embed_positions(const Real* dx, Real* dpositions, int sequences, int context, int width) override {
    launch([=] { host().embed_positions(dx, dpositions, sequences, context, width); });
  }
  void embed_tokens(const std::uint8_t* tokens, const Real* dx, Real* dtable, int vocabulary, int rows,
                    int width) override {
    launch([=] { host().embed_tokens(tokens, dx, dtable, vocabulary, rows, width); });
  }
  void standardize(const std::uint8_t* bytes, Real* x, std::int64_t count, double mean,
                   double deviation) override {
    launch([=] { host().standardize(bytes, x, count, mean, deviation); });
  }
  void gelu(Real* x_to_slope, Real* y, std::int64_t count) override {
    launch([=] { host().gelu(x_to_slope, y, count); });
  }
  void multiply(const Real* slope, Real* dx, std::int64_t count) override {
    launch([=] { host().multiply(slope, dx, count); });
  }
  void relu(Real* x, std::int64_t count) override {
    launch([=] { host().relu(x, count); });
  }
  void relu_backward(const Real* y, Real* dx, std::int64_t count) override {
    launch([=] { host().relu_backward(y, dx, count); });
  }
  void add(const Real* x, Real* sum, std::int64_t count) override {
    launch([=] { host().add(x, sum, count); });
  }
  void causal_softmax(Real* scores, int context, int matrices) override {
    launch([=] { host().causal_softmax(scores, context, matrices); });
  }
  void causal_softmax_backward(const Real* probabilities, Real* gradient, int context,
                               int matrices) override {
    launch([=] { host().causal_softmax_backward(probabilities, gradient, context, matrices); });
  }
  double cross_entropy(Real* logits_to_gradient, const std::uint8_t* targets, int rows, int classes,
                       int stride, std::int64_t of_rows) override {
    double loss = 0;
    launch([=, &loss] {
      loss = host().cross_entropy(logits_to_gradient, targets, rows, classes, stride, of_rows);
    });
    finish();
    return loss;
  }

 private:
  static examples::Math<Real>& host() { return examples::host_math<Real>(); }

  Stream stream_;
  detail::cuda::NativeStream native_;
  std::vector<Interval> kernels_;
};

class ToReducer final : public examples::GradientSink<float> {
 public:
  ToReducer(GradientReducer& reducer, const Stream& compute) : reducer_(reducer), compute_(compute) {}
  float* target(int parameter) override {
    return static_cast<float*>(reducer_.gradient(ParamId{parameter}, compute_).data());
  }
  void ready(int parameter) override { reducer_.mark_ready(ParamId{parameter}, compute_); }

 private:
  GradientReducer& reducer_;
  const Stream& compute_;
};

struct Settings {
  examples::ModelSpec spec;
  int steps;
  fs::path folder;
};

/// A step by weft's account, and what the compute stream did.
struct Step {
  Interval around{};
  std::vector<Interval> kernels{};
  std::size_t buckets = 0;
  std::int64_t elements = 0;
  double exposed = 0;
  double busy = 0;  ///< a bucket was on the wire, by this rank's own times
};

fs::path trace_in(const fs::path& folder) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return folder / ("trace-" + std::string(host) + "-" + std::to_string(getpid()) + ".json");
}

std::vector<Step> train(Communicator comm, const Settings& settings, const examples::Text& text) {
  Stream compute(comm.device());
  QueuedMath math(compute);
  const auto model = examples::make_model<float>(settings.spec, math);
  const std::vector<examples::ParameterInfo>& infos = model->parameters();
  const std::vector<std::int64_t> offsets = examples::packed_offsets(infos);
  Buffer parameters = math.allocate(examples::total_count(infos));
  model->bind(parameters.view(), offsets);
  model->initialize(1);
  constexpr std::size_t bucket_bytes = std::size_t{4} << 20;
  GradientReducer reducer(comm, ParamLayout::of(infos, DataType::f32),
                          {.buckets = BucketBytes{bucket_bytes}});
  ToReducer sink(reducer, compute);
  auto* const values = static_cast<float*>(parameters.view().data());
  std::vector<examples::Sequence> batch(static_cast<std::size_t>(settings.spec.sequences));
  std::vector<Step> steps;
  for (int step = 0; step < settings.steps; ++step) {
    text.training(1, step, comm.rank() * std::ssize(batch), batch);
    Step& one = steps.emplace_back();
    one.around.begin = now();
    reducer.begin_step();
    const double loss = model->forward(batch);
    model->backward(sink);
    reducer.finish_step(compute);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      const View gradient = reducer.gradient(ParamId{static_cast<int>(i)});
      math.launch([to = values + offsets[i], from = static_cast<const float*>(gradient.data()),
                   count = gradient.count()] {
        constexpr float learning_rate = 0.05F;
        for (std::int64_t j = 0; j < count; ++j) to[j] -= learning_rate * from[j];
      });
    }
    math.finish();
    one.around.end = now();
    if (!std::isfinite(loss))
      throw Error(ErrorKind::system, weft::text("the loss of step ", step, " is ", loss));
    one.kernels = united(math.take_kernels());
    one.buckets = reducer.plan().buckets().size();
    for (const Bucket& bucket : reducer.plan().buckets()) one.elements += bucket.count();
    const StepHistory history = reducer.account();
    one.exposed = history.steps.at(0).exposed_seconds;
    // Without the other ranks: a kernel of NCCL's runs while it waits for them.
    one.busy =
        account_of(0, std::span(&history.last.at(static_cast<std::size_t>(comm.rank())), 1), history.in_order)
            .link_seconds;
  }
  Stream host;
  comm.barrier(host).wait();
  if (comm.rank() == 0) {
    raise(SIGUSR2);
    for (int i = 0; i < 6000 && !fs::exists(trace_in(settings.folder)); ++i)
      std::this_thread::sleep_for(10ms);
  }
  comm.barrier(host).wait();
  return steps;
}

struct Operation {
  Interval when;
  std::int64_t elements;
  bool done;
};

std::string behind(const std::string& line, const std::string& words) {
  const std::size_t at = line.find(words);
  return at == std::string::npos ? "" : line.substr(at + words.size());
}

/// By rank, from the plug-in's trace: an event is a line.
std::map<int, std::vector<Operation>> operations_in(const fs::path& trace) {
  std::map<std::string, int> rank_of_track;
  std::map<int, std::vector<Operation>> result;
  std::ifstream in(trace);
  for (std::string line; std::getline(in, line);) {
    const std::string track = std::to_string(std::atoi(behind(line, "\"tid\":").c_str()));
    if (line.find("thread_name") != std::string::npos) {
      rank_of_track[track] = std::atoi(behind(line, ", rank ").c_str());
    } else if (line.find("\"cat\":\"nccl\"") != std::string::npos) {
      const double begin = std::atof(behind(line, "\"ts\":").c_str()) * 1e-6;
      const double length = std::atof(behind(line, "\"dur\":").c_str()) * 1e-6;
      result[rank_of_track.at(track)].push_back({{begin, begin + length},
                                                 std::atoll(behind(line, "\"count\":").c_str()),
                                                 line.find("\"state\":\"done\"") != std::string::npos});
    }
  }
  return result;
}

/// By the plug-in, over by weft's account, of each step.
struct Ratios {
  std::vector<double> all{};
  double ours = 0;
  double wefts = 0;

  void add(double by_plug_in, double by_weft) {
    ours += by_plug_in;
    wefts += by_weft;
    if (by_weft > 0) all.push_back(by_plug_in / by_weft);
  }
  /// Of the median step: one in which a thread had to wait for a processor says nothing.
  double percent_apart() const {
    if (all.empty()) return 100;
    std::vector<double> sorted = all;
    std::ranges::sort(sorted);
    return 100 * std::abs(sorted[sorted.size() / 2] - 1);
  }
  void print(const char* what) const {
    const auto [least, most] = std::ranges::minmax(all);
    std::printf("; %s %.4f s, by weft %.4f s: %.2f %% apart in the median step (ratios %.4f to %.4f)", what,
                ours, wefts, percent_apart(), least, most);
  }
};

/// Prints a line. @returns whether what is compared agrees
bool compare(int rank, const std::vector<Step>& steps, const std::vector<Operation>& operations,
             const std::vector<Interval>& divisions, double most_percent) {
  bool right = true;
  std::size_t counted = 0;
  Ratios busy;
  Ratios exposed;
  for (std::size_t i = warm_up; i < steps.size(); ++i) {
    const Step& step = steps[i];
    std::vector<Interval> ran;
    std::int64_t elements = 0;
    for (const Operation& one : operations) {
      if (one.when.begin < step.around.begin || one.when.begin > step.around.end) continue;
      ran.push_back(one.when);
      elements += one.elements;
      right = right && one.done && one.when.end <= step.around.end;
    }
    if (ran.size() != step.buckets || elements != step.elements) {
      std::printf("rank %d, step %zu: %zu operations of %lld elements, and %zu buckets of %lld\n", rank, i,
                  ran.size(), static_cast<long long>(elements), step.buckets,
                  static_cast<long long>(step.elements));
      right = false;
    }
    counted += ran.size();
    for (const Interval& one : divisions) {
      if (one.begin >= step.around.begin && one.begin <= step.around.end) ran.push_back(one);
    }
    ran = united(std::move(ran));
    constexpr double rounding = 1e-5;  // seconds
    right = right && total(ran) <= step.busy + rounding;
    busy.add(total(ran), step.busy);
    exposed.add(outside(ran, step.kernels), step.exposed);
  }
  if (counted == 0) return false;
  std::printf("rank %d: %zu operations", rank, counted);
  busy.print("busy");
  exposed.print("exposed");
  std::printf("\n");
  return right &&
         (most_percent <= 0 || std::max(busy.percent_apart(), exposed.percent_apart()) <= most_percent);
}

examples::Text some_text(unsigned seed, const examples::ModelSpec& spec) {
  test::Draw draw(seed);
  std::vector<std::uint8_t> bytes(std::size_t{1} << 20);
  for (std::uint8_t& one : bytes) one = static_cast<std::uint8_t>('a' + draw.below(26));
  return {std::move(bytes), spec.sequence_bytes(), "letters"};
}

int run(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::fprintf(stderr, "usage: soak_exposed SEED MODEL STEPS RANKS [PERCENT]\n");
    return 42;
  }
  const test::TemporaryFolder folder;
  setenv("WEFT_PROFILER_DIR", folder.path().c_str(), 1);
  const Settings settings{examples::model_spec(argv[2]), std::atoi(argv[3]), folder.path()};
  const int ranks = std::atoi(argv[4]);
  const double most_percent = argc == 6 ? std::atof(argv[5]) : 0;
  const examples::Text text = some_text(static_cast<unsigned>(std::atoi(argv[1])), settings.spec);

  const auto release = profiler::test::Release::v2_28;
  const auto cuda = std::make_shared<NotingCuda>();
  detail::cuda::replace_runtime(cuda);
  cuda->memory = std::size_t{16} << 30;
  test::FakeNcclRanks nccl(profiler::test::version_of(release));
  nccl.observe(profiler::test::profiled(release));
  std::vector<std::vector<Step>> steps(static_cast<std::size_t>(ranks));
  test::run_with_fakes(
      nccl, ranks,
      [&](const Communicator& comm) {
        steps[static_cast<std::size_t>(comm.rank())] = train(comm, settings, text);
      },
      10min);
  const auto operations = operations_in(trace_in(settings.folder));
  bool right = true;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto of_rank = operations.find(rank);
    right = compare(rank, steps[static_cast<std::size_t>(rank)],
                    of_rank == operations.end() ? std::vector<Operation>() : of_rank->second,
                    cuda->divisions(rank), most_percent) &&
            right;
  }
  detail::cuda::replace_runtime(nullptr);
  std::printf("exposed: %d steps of %s on %d ranks: %s\n", settings.steps, argv[2], ranks,
              right ? "the plug-in and weft agree" : "the plug-in and weft DIFFER");
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& error) {
  std::fprintf(stderr, "soak_exposed: %s\n", error.what());
  return 70;
}
