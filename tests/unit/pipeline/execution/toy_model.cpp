#include "unit/pipeline/execution/toy_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/fake_cuda.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {
namespace {

using pipeline::Action;
using pipeline::ActionType;
using pipeline::MicrobatchValues;

constexpr double scale_of(int stage) {
  return stage % 3 == 2 ? -2 : 1 + stage % 2;
}
constexpr double shift_of(int stage) {
  return stage % 4 - 1;
}

std::vector<double> data(int microbatch, std::int64_t count) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<double>((7 * i + microbatch) % 5 - 2));
  return result;
}

// The memory of a fake device is the host's.
std::span<const double> elements(const ConstView& view) {
  return {static_cast<const double*>(view.data()), static_cast<std::size_t>(view.count())};
}
std::span<double> elements(const View& view) {
  return {static_cast<double*>(view.data()), static_cast<std::size_t>(view.count())};
}

/// Runs the function in the stream's order, on a device like a kernel.
void submit(const Stream& compute, std::function<void()> work) {
  if (compute.device().is_host()) return Stream(compute).run(std::move(work));
  Stream(compute).run([native = native_handle(compute), work] { FakeCuda::enqueue(native, work); });
}

std::vector<double> through(int stage, std::vector<double> values) {
  for (double& value : values) value = scale_of(stage) * value + shift_of(stage);
  return values;
}

void add(ToyGradient& to, std::span<const double> input, std::span<const double> upstream) {
  for (std::size_t i = 0; i < input.size(); ++i) {
    to.scale += upstream[i] * input[i];
    to.shift += upstream[i];
  }
}

}  // namespace

std::vector<ToyGradient> toy_gradients(int stages, int microbatches, const ToySizes& sizes) {
  std::vector<ToyGradient> result(static_cast<std::size_t>(stages));
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    std::vector<std::vector<double>> inputs{data(microbatch, sizes.of(microbatch))};
    for (int s = 0; s < stages; ++s) inputs.push_back(through(s, inputs.back()));
    std::vector<double> upstream = inputs.back();
    for (int s = stages - 1; s >= 0; --s) {
      add(result[static_cast<std::size_t>(s)], inputs[static_cast<std::size_t>(s)], upstream);
      for (double& value : upstream) value *= scale_of(s);
    }
  }
  return result;
}

ToyStage::ToyStage(const pipeline::Schedule& schedule, int stage, const ToySizes& sizes)
    : first_(stage == 0), last_(stage + 1 == schedule.stages()), stage_(stage), sizes_(sizes) {
  for (const auto& row : schedule.rows) {
    for (const Action& one : row) {
      if (one.stage == stage && one.type == ActionType::unshard) is_sharded_ = true;
    }
  }
  is_whole_ = !is_sharded_;
}

pipeline::Boundary ToyStage::input() const {
  return {DataType::f64, first_ ? 0 : sizes_.most};
}
pipeline::Boundary ToyStage::output() const {
  return {DataType::f64, last_ ? 0 : sizes_.most};
}
std::int64_t ToyStage::output_count(int microbatch, std::int64_t) const {
  return last_ ? 0 : sizes_.of(microbatch);
}

void ToyStage::expect_whole() const {
  EXPECT_TRUE(is_whole_) << "stage " << stage_ << " computes without its parameters";
}

std::vector<double> ToyStage::kept(int microbatch) {
  const auto found = kept_.find(microbatch);
  if (found != kept_.end()) return found->second;
  ADD_FAILURE() << "stage " << stage_ << " has nothing of microbatch " << microbatch;
  return std::vector<double>(static_cast<std::size_t>(sizes_.of(microbatch)));
}

void ToyStage::forward(const MicrobatchValues& of, const Stream& compute) {
  submit(compute, [this, of] {
    expect_whole();
    const auto given = elements(of.input);
    std::vector<double> input(given.begin(), given.end());
    if (first_) input = data(of.microbatch, sizes_.of(of.microbatch));
    EXPECT_EQ(std::ssize(input), sizes_.of(of.microbatch));
    const std::vector<double> output = through(stage_, input);
    if (!last_) std::ranges::copy(output, elements(of.output).begin());
    EXPECT_EQ(of.output.count(), output_count(of.microbatch, of.input.count()));
    inputs_[of.microbatch] = of.input.data();
    if (!of.recomputed) kept_[of.microbatch] = input;
  });
}

void ToyStage::recompute(const MicrobatchValues& of, const Stream& compute) {
  submit(compute, [this, of] {
    expect_whole();
    EXPECT_TRUE(of.recomputed);
    EXPECT_EQ(of.input.data(), inputs_[of.microbatch]);
    const auto given = elements(of.input);
    kept_[of.microbatch].assign(given.begin(), given.end());
    if (first_) kept_[of.microbatch] = data(of.microbatch, sizes_.of(of.microbatch));
  });
}

void ToyStage::backward_input(const MicrobatchValues& of, const Stream& compute) {
  submit(compute, [this, of] {
    expect_whole();
    EXPECT_EQ(of.input.data(), inputs_[of.microbatch]);
    output_gradients_[of.microbatch] = of.output_gradient.data();
    if (first_) return;
    const auto given = elements(of.output_gradient);
    std::vector<double> upstream(given.begin(), given.end());
    if (last_) upstream = through(stage_, kept(of.microbatch));
    EXPECT_EQ(of.input_gradient.count(), of.input.count());
    std::ranges::transform(upstream, elements(of.input_gradient).begin(),
                           [this](double value) { return value * scale_of(stage_); });
  });
}

void ToyStage::backward_weight(const MicrobatchValues& of, const Stream& compute) {
  submit(compute, [this, of] {
    expect_whole();
    EXPECT_EQ(of.input.data(), inputs_[of.microbatch]);
    EXPECT_EQ(of.output_gradient.data(), output_gradients_[of.microbatch]);
    const std::vector<double> input = kept(of.microbatch);
    const auto given = elements(of.output_gradient);
    std::vector<double> upstream(given.begin(), given.end());
    if (last_) upstream = through(stage_, input);
    // The first stage has no input here; the others must find theirs unchanged.
    EXPECT_TRUE(first_ || std::ranges::equal(elements(of.input), input));
    add(gradient, input, upstream);
    kept_.erase(of.microbatch);
  });
}

void ToyStage::offload(int microbatch, const Stream& compute) {
  submit(compute, [this, microbatch] {
    on_host_[microbatch] = kept(microbatch);
    kept_.erase(microbatch);
  });
}
void ToyStage::load(int microbatch, const Stream& compute) {
  submit(compute, [this, microbatch] {
    EXPECT_TRUE(on_host_.contains(microbatch));
    kept_[microbatch] = on_host_[microbatch];
    on_host_.erase(microbatch);
  });
}
void ToyStage::await_unshard(const Stream& compute) {
  submit(compute, [this] { is_whole_ = true; });
}
void ToyStage::reshard(const Stream& compute) {
  submit(compute, [this] { is_whole_ = false; });
}
void ToyStage::reduce_gradients(const Stream& compute) {
  submit(compute, [this] { ++reductions; });
}

}  // namespace weft::test
