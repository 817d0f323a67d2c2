// Stages of a GPT, called by hand, beside the GPT in one piece.

#include "weft-scaling/gpt/pipeline/gpt_stage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/tools/weft-scaling/gpt/sink.hpp"
#include "weft-scaling/gpt/data/random.hpp"
#include "weft-scaling/gpt/model/gpt.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"

namespace weft::examples {
namespace {

constexpr int microbatches = 2;  // whose number divides without rounding

/// A GPT in one piece and in stages, with the same parameters and sequences.
struct Twins {
  explicit Twins(const std::vector<int>& cut, GptStageOptions options = {})
      : whole(host_math<float>(), sizes),
        table(host_math<float>()),
        layers(table, sizes),
        sink(table.infos()) {
    values.resize(static_cast<std::size_t>(total_count(table.infos())));
    whole.bind(View(std::span(values)), sink.offsets());
    table.bind(View(std::span(values)), sink.offsets());
    whole.initialize(3);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += static_cast<float>(0.03 * random_normal(11, 2, i));
    for (std::size_t i = 0; i < microbatches * 17; ++i)
      bytes.push_back(static_cast<std::uint8_t>(random_word(5, 1, i) & 0x7fU));
    for (std::size_t i = 0; i < microbatches; ++i) batch.push_back(Sequence(bytes).subspan(i * 17, 17));
    options.microbatches = microbatches;
    options.held = microbatches;
    for (std::size_t i = 0; i + 1 < cut.size(); ++i) {
      options.begin = cut[i];
      options.end = cut[i + 1];
      stages.push_back(std::make_unique<GptStage<float>>(layers, table, sizes, options));
      stages.back()->begin_step(batch);
    }
    for (auto* list : {&activations, &gradients}) {
      for (std::size_t i = 0; i < microbatches * (stages.size() + 1); ++i)
        list->push_back(Buffer::on_host(DataType::f32, 16 * 32));
    }
  }

  pipeline::MicrobatchValues of(std::size_t stage, int microbatch) {
    const std::size_t at = stage * microbatches + static_cast<std::size_t>(microbatch);
    const bool is_first = stage == 0;
    const bool is_last = stage + 1 == stages.size();
    pipeline::MicrobatchValues result{.microbatch = microbatch};
    if (!is_first) result.input = activations[at].view();
    if (!is_first) result.input_gradient = gradients[at].view();
    if (!is_last) result.output = activations[at + microbatches].view();
    if (!is_last) result.output_gradient = gradients[at + microbatches].view();
    return result;
  }
  template <class Function>
  void up(Function function) {
    for (int m = 0; m < microbatches; ++m) {
      for (std::size_t s = 0; s < stages.size(); ++s) function(*stages[s], of(s, m));
    }
  }
  template <class Function>
  void down(Function function) {
    for (int m = 0; m < microbatches; ++m) {
      for (std::size_t s = stages.size(); s-- > 0;) function(*stages[s], of(s, m));
    }
  }

  /// Loss and gradients of the stages, and of the whole model that runs the microbatches one by one.
  void expect_the_same() {
    double loss = 0;
    std::vector<float> sums(values.size());
    for (const Sequence& sequence : batch) {
      loss += whole.forward(Batch(&sequence, 1)) / microbatches;
      whole.backward(sink);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += sink.gradients()[i] / microbatches;
    }
    EXPECT_DOUBLE_EQ(stages.back()->loss(), loss);
    for (const auto& stage : stages) {
      for (int p = stage->first_parameter(); p < stage->end_parameter(); ++p) {
        const auto at = static_cast<std::size_t>(p);
        const std::span<const float> mine = stage->gradient(p).as<float>();
        const auto expected =
            std::span(sums).subspan(static_cast<std::size_t>(sink.offsets()[at]), mine.size());
        EXPECT_TRUE(std::ranges::equal(mine, expected)) << table.infos()[at].name;
      }
    }
  }

  GptSizes sizes{.layers = 2, .width = 32, .heads = 2, .context = 16, .sequences = 1};
  Gpt<float> whole;
  ParameterTable<float> table;
  GptLayers<float> layers;
  RecordingSink<float> sink;
  std::vector<float> values;
  std::vector<std::uint8_t> bytes;
  std::vector<Sequence> batch;
  std::vector<std::unique_ptr<GptStage<float>>> stages;
  std::vector<Buffer> activations, gradients;
  Stream compute;
};

TEST(GptStage, HasTheGradientsOfTheWholeModelBitByBitWhereverItIsCut) {
  for (const std::vector<int>& cut : {std::vector{0, 6}, std::vector{0, 1, 5, 6}, std::vector{0, 2, 4, 6},
                                      std::vector{0, 3, 6}, std::vector{0, 1, 2, 3, 4, 5, 6}}) {
    Twins twins(cut, {.splits = false});
    twins.up([&](auto& stage, const auto& of) { stage.forward(of, twins.compute); });
    twins.down([&](auto& stage, const auto& of) { stage.backward(of, twins.compute); });
    twins.expect_the_same();
  }
}

TEST(GptStage, ComputesWeightGradientsLaterWithTheSameBits) {
  for (const std::vector<int>& cut : {std::vector{0, 6}, std::vector{0, 2, 4, 6}, std::vector{0, 1, 5, 6}}) {
    Twins twins(cut);
    twins.up([&](auto& stage, const auto& of) { stage.forward(of, twins.compute); });
    twins.down([&](auto& stage, const auto& of) { stage.backward_input(of, twins.compute); });
    twins.up([&](auto& stage, auto of) {
      of.input_gradient = {};  // no longer there
      stage.backward_weight(of, twins.compute);
    });
    twins.expect_the_same();
  }
}

TEST(GptStage, RecomputesWhatItHasNotKept) {
  Twins twins({0, 2, 4, 6}, {.splits = false, .recomputes = true});
  twins.up([&](auto& stage, auto of) {
    of.recomputed = true;
    stage.forward(of, twins.compute);
  });
  twins.down([&](auto& stage, const auto& of) {
    stage.recompute(of, twins.compute);
    stage.backward(of, twins.compute);
  });
  twins.expect_the_same();
}

TEST(GptStage, RefusesMoreMicrobatchesThanItWasMadeFor) {
  Twins twins({0, 6});
  twins.up([&](auto& stage, const auto& of) { stage.forward(of, twins.compute); });
  EXPECT_THAT([&] { twins.stages[0]->forward(twins.of(0, 0), twins.compute); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("made for 2 at once")));
  EXPECT_THAT(
      [&] { twins.stages[0]->begin_step(Batch(twins.batch).first(1)); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("a step of 1 sequences for 2 microbatches of 1")));
  twins.down([&](auto& stage, const auto& of) { stage.backward(of, twins.compute); });
  EXPECT_THAT([&] { twins.stages[0]->backward(twins.of(0, 1), twins.compute); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("nothing is kept of microbatch 1")));
}

}  // namespace
}  // namespace weft::examples
