// One of the ranks of a pipeline whose stages do next to nothing and whose messages are as large as asked: does a step come to its end?
//   gpu_pipelines SCHEDULE BYTES cold|warm    cold: its kernels are launched for the first time in the first step
// Rank 0 prints a JSON object. Each value is computed by hand, too.

#include <algorithm>
#include <chrono>
#include <iostream>

#include "core/memory/elementwise.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/stage_executor.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

constexpr int microbatches = 8;
constexpr int steps = 3;

/// Forward doubles what comes in and adds 1; backward halves what comes back. The weight's gradient is the sum of what comes back.
class Doubling final : public pipeline::Stage {
 public:
  Doubling(Device device, int stage, int stages, std::int64_t count)
      : is_first_(stage == 0),
        is_last_(stage + 1 == stages),
        count_(count),
        ones_(Buffer::on(device, DataType::f32, count)),
        gradient_(Buffer::on(device, DataType::f32, count)) {
    Stream stream(device);
    fill_by_copy(ones_.view(), 1, stream);
  }

  pipeline::Boundary input() const override { return {DataType::f32, is_first_ ? 0 : count_}; }
  pipeline::Boundary output() const override { return {DataType::f32, is_last_ ? 0 : count_}; }

  void forward(const pipeline::MicrobatchValues& of, const Stream& compute) override {
    if (is_last_) return;
    if (is_first_) return detail::fill(of.output, of.microbatch + 1, compute);
    copy(of.output, of.input, compute);
    detail::scale(of.output, 2, compute);
    detail::add(of.output, ones_.view(), compute);
  }
  void backward_input(const pipeline::MicrobatchValues& of, const Stream& compute) override {
    if (is_first_) return;
    if (is_last_) {
      copy(of.input_gradient, of.input, compute);  // the loss is half the square of it
      return;
    }
    copy(of.input_gradient, of.output_gradient, compute);
    detail::divide(of.input_gradient, 2, compute);
  }
  void backward_weight(const pipeline::MicrobatchValues& of, const Stream& compute) override {
    if (!is_last_) detail::add(gradient_.view(), of.output_gradient, compute);
  }
  /// The first and the last element.
  std::pair<float, float> gradient(const Stream& compute) {
    std::pair<float, float> ends;
    copy(View(std::span(&ends.first, 1)), gradient_.view().slice(0, 1), compute);
    copy(View(std::span(&ends.second, 1)), gradient_.view().slice(count_ - 1, 1), compute);
    Stream(compute).synchronize();
    return ends;
  }

 private:
  static void fill_by_copy(View to, float value, Stream& stream) {
    const std::vector<float> values(static_cast<std::size_t>(to.count()), value);
    copy(to, ConstView(std::span(values)), stream);
    stream.synchronize();
  }

  bool is_first_, is_last_;
  std::int64_t count_;
  Buffer ones_;
  Buffer gradient_;
};

/// What stage `stage` of `stages` has added up after `steps` steps.
float by_hand(int stage, int stages) {
  double sum = 0;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    double value = microbatch + 1;  // into the last stage
    for (int s = 1; s + 1 < stages; ++s) value = 2 * value + 1;
    for (int s = stages - 2; s > stage; --s) value /= 2;  // and back to this stage's output
    sum += value;
  }
  return stage + 1 == stages ? 0 : static_cast<float>(sum * steps);
}

void warm_up(Device device, std::int64_t count) {
  Stream stream(device);
  Buffer one = Buffer::on(device, DataType::f32, count);
  Buffer other = Buffer::on(device, DataType::f32, count);
  detail::fill(one.view(), 1, stream);
  copy(other.view(), one.view(), stream);
  detail::scale(other.view(), 2, stream);
  detail::divide(other.view(), 2, stream);
  detail::add(other.view(), one.view(), stream);
  stream.synchronize();
}

int run(const std::string& name, std::int64_t bytes, bool is_warm) {
  Communicator comm = connect(World::from_environment());
  const int devices = comm.size();
  const auto one = std::ranges::find_if(pipeline::named_schedules(),
                                        [&](const auto& named) { return named.name == name; });
  if (one == pipeline::named_schedules().end()) throw Error(ErrorKind::usage, "no schedule: " + name);
  pipeline::Problem problem{.devices = devices, .microbatches = microbatches, .costs = {}};
  problem.costs = pipeline::uniform_costs(
      devices, one->fewest_chunks,
      {.forward = 1'000'000, .backward_input = 1'000'000, .backward_weight = 1'000'000});
  const pipeline::Schedule schedule = pipeline::make_named(name, problem);
  const std::int64_t count = bytes / 4;
  if (is_warm) warm_up(comm.device(), count);
  std::vector<std::unique_ptr<Doubling>> own;
  std::vector<pipeline::Stage*> stages;
  for (const int stage : schedule.stages_of(comm.rank())) {
    own.push_back(std::make_unique<Doubling>(comm.device(), stage, schedule.stages(), count));
    stages.push_back(own.back().get());
  }
  pipeline::StageExecutor executor(comm, schedule, stages);
  Stream compute(comm.device());
  comm.barrier(Stream()).wait();
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    const auto begin = Clock::now();
    executor.step(compute);
    compute.synchronize();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    if (comm.rank() == 0) std::cerr << "step " << step << ": " << seconds.back() << " s\n";
  }
  bool is_right = true;
  const std::vector<int> mine = schedule.stages_of(comm.rank());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const auto expected = by_hand(mine[i], schedule.stages());
    const auto [first, last] = own[i]->gradient(compute);
    if (first == expected && last == expected) continue;
    is_right = false;
    std::cerr << "stage " << mine[i] << ": " << first << " and " << last << " in place of " << expected
              << '\n';
  }
  comm.barrier(Stream()).wait();
  if (comm.rank() == 0) {
    std::cout << "{\"figure\": \"pipeline\", \"schedule\": \"" << name << "\", \"bytes\": " << bytes
              << ", \"kernels\": \"" << (is_warm ? "warm" : "cold")
              << "\", \"right\": " << (is_right ? "true" : "false") << ", \"step_s\": [" << seconds[0] << ", "
              << seconds[1] << ", " << seconds[2] << "]}\n";
  }
  return is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: gpu_pipelines SCHEDULE BYTES cold|warm\n";
    return 42;
  }
  try {
    return run(argv[1], std::stoll(argv[2]), std::string(argv[3]) == "warm");
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return exit_code(error.kind());
  }
}
