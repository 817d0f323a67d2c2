// What a trainer relies on: initial loss, falling loss, the same bits twice, and refusals that name the
// cause.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "unit/tools/weft-scaling/gpt/sink.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"
#include "weft/core/error.hpp"

namespace weft::examples {
namespace {

std::vector<std::uint8_t> verse() {
  const std::string line = "the warp is still, the weft goes over and under and comes back again. ";
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 60; ++i) bytes.insert(bytes.end(), line.begin(), line.end());
  return bytes;
}

struct Training {
  explicit Training(const ModelSpec& spec)
      : model(make_model<float>(spec)),
        text(verse(), model->sequence_bytes(), "verse"),
        sink(model->parameters()),
        parameters(sink.gradients().size()),
        first(parameters.size()),
        second(parameters.size()),
        adam(spec.optimizer),
        batch(static_cast<std::size_t>(model->sequences())) {
    model->bind(View(std::span(parameters)), sink.offsets());
    model->initialize(1);
  }

  double step() {
    text.training(1, steps++, 0, batch);
    const double loss = model->forward(batch);
    model->backward(sink);
    update();
    return loss;
  }

  void update() {
    const auto number = static_cast<double>(steps);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto gradient = static_cast<double>(sink.gradients()[i]);
      first[i] = adam.beta1 * first[i] + (1 - adam.beta1) * gradient;
      second[i] = adam.beta2 * second[i] + (1 - adam.beta2) * gradient * gradient;
      const double mean = first[i] / (1 - std::pow(adam.beta1, number));
      const double square = second[i] / (1 - std::pow(adam.beta2, number));
      const double step = mean / (std::sqrt(square) + adam.epsilon) + adam.weight_decay * parameters[i];
      parameters[i] -= static_cast<float>(adam.learning_rate * step);
    }
  }

  double held_out() {
    text.held_out(std::ssize(batch), 0, batch);
    return model->forward(batch);
  }

  std::unique_ptr<Model<float>> model;
  Text text;
  RecordingSink<float> sink;
  std::vector<float> parameters;
  std::vector<double> first;
  std::vector<double> second;
  OptimizerSpec adam;
  std::vector<Sequence> batch;
  std::int64_t steps = 0;
};

TEST(Model, TheFirstLossOfAGptIsThatOfAUniformGuess) {
  Training training(model_spec("gpt-tiny"));
  EXPECT_NEAR(training.held_out(), std::log(256.0), 1e-5);
}

TEST(Model, TheTinyGptLearnsAVerse) {
  Training training(model_spec("gpt-tiny"));
  for (int i = 0; i < 300; ++i) training.step();
  EXPECT_LT(training.held_out(), 1.5);
}

TEST(Model, AnMlpLearnsAVerse) {
  ModelSpec spec = model_spec("mlp-8x1024");
  spec.layers = 3;
  spec.width = spec.context = 256;
  Training training(spec);
  const double first = training.held_out();
  for (int i = 0; i < 60; ++i) training.step();
  EXPECT_LT(training.held_out(), first / 2);
}

TEST(Model, TwoRunsHaveTheSameBits) {
  Training one(model_spec("gpt-tiny"));
  Training two(model_spec("gpt-tiny"));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(one.step(), two.step());
  EXPECT_EQ(one.parameters, two.parameters);
}

TEST(Model, InitialValuesDoNotDependOnTheOffsets) {
  const auto model = make_model<float>("gpt-tiny");
  const std::vector<std::int64_t> packed = packed_offsets(model->parameters());
  std::vector<std::int64_t> spaced = packed;
  for (std::size_t p = 0; p < spaced.size(); ++p) spaced[p] += 3 * static_cast<std::int64_t>(p);
  const std::int64_t count = total_count(model->parameters());
  std::vector<float> tight(static_cast<std::size_t>(count));
  std::vector<float> loose(static_cast<std::size_t>(count + 3 * std::ssize(spaced)));
  model->bind(View(std::span(tight)), packed);
  model->initialize(9);
  model->bind(View(std::span(loose)), spaced);
  model->initialize(9);
  for (std::size_t p = 0; p < packed.size(); ++p) {
    const auto start = tight.begin() + packed[p];
    EXPECT_TRUE(std::equal(start, start + model->parameters()[p].count, loose.begin() + spaced[p]))
        << model->parameters()[p].name;
  }
}

TEST(Model, PositionsStartAsWavesWhoseNeighboursAreSimilar) {
  Training training(model_spec("gpt-tiny"));
  const ParameterInfo& info = training.model->parameters()[1];
  ASSERT_EQ(info.name, "embedding.positions");
  const float* rows = training.parameters.data() + training.sink.offsets()[1];
  const std::int64_t width = info.shape[1];
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    return std::inner_product(rows + a * width, rows + (a + 1) * width, rows + b * width, 0.0);
  };
  EXPECT_NEAR(dot(3, 3), info.initial.deviation * info.initial.deviation * static_cast<double>(width), 1e-2);
  EXPECT_NEAR(dot(0, 1), dot(8, 9), 1e-2);
  EXPECT_GT(dot(0, 1), dot(0, 2));
}

TEST(Model, TheMeanOverTwoHalvesOfABatchIsTheLossOfTheWhole) {
  ModelSpec spec = model_spec("gpt-tiny");
  spec.sequences = 4;
  Training training(spec);
  for (int i = 0; i < 10; ++i) training.step();
  training.text.training(1, 0, 0, training.batch);
  const double whole = training.model->forward(training.batch);
  const double left = training.model->forward(std::span(training.batch).first(2));
  const double right = training.model->forward(std::span(training.batch).last(2));
  EXPECT_NEAR(whole, (left + right) / 2, 1e-6);
}

TEST(Model, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    make_model<float>("gpt-9");
    FAIL() << "an unknown model was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(), "weft: unknown model gpt-9; allowed are gpt-ref, mlp-8x1024, gpt-tiny");
  }
}

TEST(Model, SizesThatDoNotFitEachOtherAreRefused) {
  ModelSpec heads = model_spec("gpt-tiny");
  heads.heads = 3;
  EXPECT_THROW(make_model<float>(heads), Error);
  ModelSpec narrow = model_spec("mlp-8x1024");
  narrow.width = narrow.context = 128;
  EXPECT_THROW(make_model<float>(narrow), Error);
  ModelSpec empty = model_spec("gpt-ref");
  empty.layers = 0;
  EXPECT_THROW(make_model<float>(empty), Error);
}

TEST(Model, CallsInTheWrongOrderOrWithTheWrongBatchAreRefused) {
  const auto model = make_model<float>("gpt-tiny");
  const std::vector<std::uint8_t> bytes(17, 'a');
  const std::vector<Sequence> batch{Sequence(bytes)};
  RecordingSink<float> sink(model->parameters());
  EXPECT_THROW(model->initialize(1), Error);
  EXPECT_THROW(model->forward(batch), Error);
  std::vector<float> flat(sink.gradients().size());
  EXPECT_THROW(model->bind(View(std::span(flat).first(flat.size() - 1)), sink.offsets()), Error);
  model->bind(View(std::span(flat)), sink.offsets());
  model->initialize(1);
  EXPECT_THROW(model->backward(sink), Error);
  model->forward(batch);
  model->backward(sink);
  EXPECT_THROW(model->backward(sink), Error);
  EXPECT_THROW(model->forward(std::vector<Sequence>(3, batch[0])), Error);
  EXPECT_THROW(model->forward({}), Error);
  EXPECT_THROW(model->forward(std::vector<Sequence>{batch[0].first(16)}), Error);
}

TEST(Model, TheReferenceWorkloadsHaveTheirStatedSizes) {
  EXPECT_NEAR(static_cast<double>(total_count(make_model<float>("gpt-ref")->parameters())), 9.1e6, 0.1e6);
  EXPECT_EQ(total_count(make_model<float>("mlp-8x1024")->parameters()), 8 * (1024 * 1024 + 1024));
}

}  // namespace
}  // namespace weft::examples
