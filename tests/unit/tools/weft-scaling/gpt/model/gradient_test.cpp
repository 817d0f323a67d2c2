// Every parameter tensor's gradient against central differences, in double.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "unit/tools/weft-scaling/gpt/sink.hpp"
#include "weft-scaling/gpt/data/random.hpp"
#include "weft-scaling/gpt/model/block.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"

namespace weft::examples {
namespace {

std::vector<std::uint8_t> random_bytes(std::int64_t count) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(random_word(5, 1, static_cast<std::uint64_t>(i)) & 0x7fU));
  }
  return bytes;
}

/// A few elements of a tensor: where the gradient is largest, both ends, and some in between.
std::vector<std::int64_t> probes(std::span<const double> gradient) {
  const auto larger = [](double a, double b) { return std::abs(a) < std::abs(b); };
  std::vector<std::int64_t> places{
      std::max_element(gradient.begin(), gradient.end(), larger) - gradient.begin(), 0,
      std::ssize(gradient) - 1};
  for (std::uint64_t i = 0; i < 9; ++i) {
    places.push_back(static_cast<std::int64_t>(random_word(7, 0, i) % gradient.size()));
  }
  return places;
}

void expect_gradients_match_differences(const ModelSpec& spec) {
  const auto model = make_model<double>(spec);
  const std::vector<std::uint8_t> bytes =
      random_bytes(static_cast<std::int64_t>(spec.sequences) * spec.sequence_bytes());
  std::vector<Sequence> batch;
  for (int s = 0; s < spec.sequences; ++s) {
    batch.push_back(Sequence(bytes).subspan(static_cast<std::size_t>(s * spec.sequence_bytes()),
                                            static_cast<std::size_t>(spec.sequence_bytes())));
  }
  RecordingSink<double> sink(model->parameters());
  std::vector<double> flat(static_cast<std::size_t>(total_count(model->parameters())));
  model->bind(View(std::span(flat)), sink.offsets());
  model->initialize(3);
  // Away from the initial point, where zeros in biases and head would hide whole terms of the gradient.
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i] += 0.03 * random_normal(11, 2, i);
  model->forward(batch);
  model->backward(sink);

  for (std::size_t p = 0; p < model->parameters().size(); ++p) {
    const std::span<const double> gradient = sink.gradient(static_cast<int>(p));
    double difference = 0;
    double norm = 0;
    for (const std::int64_t place : probes(gradient)) {
      double& value = flat[static_cast<std::size_t>(sink.offsets()[p] + place)];
      const double kept = value;
      constexpr double h = 1e-5;
      value = kept + h;
      const double above = model->forward(batch);
      value = kept - h;
      const double below = model->forward(batch);
      value = kept;
      const double expected = (above - below) / (2 * h);
      difference += std::pow(gradient[static_cast<std::size_t>(place)] - expected, 2);
      norm += std::pow(expected, 2);
    }
    EXPECT_GT(norm, 0) << model->parameters()[p].name;
    EXPECT_LT(std::sqrt(difference), 1e-6 * std::sqrt(norm) + 1e-9) << model->parameters()[p].name;
  }
}

TEST(Gradient, OfEveryParameterOfTheTinyGptMatchesDifferences) {
  expect_gradients_match_differences(model_spec("gpt-tiny"));
}

TEST(Gradient, OfEveryParameterOfAGptWithOddSizesMatchesDifferences) {
  expect_gradients_match_differences(
      {.name = "odd", .layers = 1, .width = 15, .heads = 3, .context = 19, .sequences = 3, .optimizer = {}});
}

TEST(Gradient, OfEveryParameterOfASmallMlpMatchesDifferences) {
  expect_gradients_match_differences({.name = "small",
                                      .kind = ModelKind::mlp,
                                      .layers = 3,
                                      .width = 260,
                                      .context = 260,
                                      .sequences = 3,
                                      .optimizer = {}});
}

TEST(Gradient, BackwardOverwritesEveryElementAndReportsEachParameterOnceFromTheLastToTheFirst) {
  for (const char* name : {"gpt-tiny", "mlp-8x1024"}) {
    const auto model = make_model<float>(name);
    const std::vector<std::uint8_t> bytes = random_bytes(model->sequence_bytes());
    RecordingSink<float> sink(model->parameters());
    std::vector<float> flat(sink.gradients().size());
    model->bind(View(std::span(flat)), sink.offsets());
    model->initialize(1);
    const std::vector<Sequence> batch{Sequence(bytes)};
    model->forward(batch);
    model->backward(sink);
    EXPECT_TRUE(std::all_of(sink.gradients().begin(), sink.gradients().end(), [](float g) {
      return std::isfinite(g);
    })) << name;
    std::vector<int> expected(model->parameters().size());
    std::iota(expected.rbegin(), expected.rend(), 0);
    EXPECT_EQ(sink.order(), expected) << name;
  }
}

template <class Branch>
void expect_postponed_weights_give_the_same_bits() {
  const BlockSizes sizes{.layers = 1, .width = 32, .heads = 2, .context = 16};
  constexpr int sequences = 2;
  constexpr std::size_t elements = 2 * 16 * 32;
  ParameterTable<float> table(host_math<float>());
  const Branch branch(table, "branch", sizes);
  std::vector<float> flat(static_cast<std::size_t>(total_count(table.infos())));
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<float>(0.1 * random_normal(1, 0, i));
  table.bind(View(std::span(flat)), packed_offsets(table.infos()));
  std::vector<float> x(elements);
  std::vector<float> dy(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    x[i] = static_cast<float>(random_normal(1, 1, i));
    dy[i] = static_cast<float>(random_normal(1, 2, i));
  }
  Workspace<float> workspace(host_math<float>());
  const auto saved = branch.make_saved(workspace, sequences);
  const auto flow = branch.make_flow(workspace, sequences);
  branch.forward(x.data(), saved, sequences);

  RecordingSink<float> at_once(table.infos());
  branch.backward(Pass::both, dy.data(), saved, flow, sequences, at_once);
  const std::vector<float> dx(flow.dx, flow.dx + elements);

  RecordingSink<float> postponed(table.infos());
  std::fill_n(flow.dx, elements, 0.0F);
  branch.backward(Pass::input, dy.data(), saved, flow, sequences, postponed);
  EXPECT_TRUE(postponed.order().empty());
  EXPECT_EQ(std::vector<float>(flow.dx, flow.dx + elements), dx);
  branch.backward(Pass::weight, dy.data(), saved, flow, sequences, postponed);
  EXPECT_EQ(postponed.gradients(), at_once.gradients());
  EXPECT_EQ(postponed.order(), at_once.order());
}

TEST(Gradient, PostponedWeightGradientsOfAnAttentionBranchHaveTheSameBits) {
  expect_postponed_weights_give_the_same_bits<AttentionBranch<float>>();
}

TEST(Gradient, PostponedWeightGradientsOfAnMlpBranchHaveTheSameBits) {
  expect_postponed_weights_give_the_same_bits<MlpBranch<float>>();
}

}  // namespace
}  // namespace weft::examples
