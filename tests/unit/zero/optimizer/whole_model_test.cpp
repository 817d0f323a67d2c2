// A model in parts, each with its own optimizer, gives the same bits as the model in one piece.

#include <gtest/gtest.h>

#include <future>
#include <map>

#include "support/expect_error.hpp"
#include "support/zero_training.hpp"
#include "zero/optimizer/sharded_optimizer_state.hpp"

namespace weft::zero {
namespace {

using test::ZeroTraining;
using Result = ZeroTraining::Result;
using Parts = std::vector<std::vector<int>>;

const Parts two_parts{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9, 10, 11}};
const Parts three_parts{{0, 1}, {2, 3, 4, 5, 6}, {7, 8, 9, 10, 11}};

/// Rank p * job.ranks + d is rank d of part p.
struct Place {
  int part;
  Communicator data;
  Communicator whole_model;

  static Place of(Communicator all, int data_ranks) {
    const int part = all.rank() / data_ranks;
    const int data_rank = all.rank() % data_ranks;
    return {part, *all.split(part, data_rank), *all.split(data_rank, part)};
  }
};

/// Checks that every rank has the same norms, skipped steps and scale. Parameters are those of the parts, one
/// part after the other.
Result train(const ZeroTraining& job, const Parts& parts) {
  std::map<int, Result> by_part;
  std::mutex mutex;
  run_as_threads(job.ranks * static_cast<int>(parts.size()), [&](Communicator all) {
    const Place here = Place::of(all, job.ranks);
    ZeroTraining mine = job;
    mine.part = parts[static_cast<std::size_t>(here.part)];
    mine.stepping.whole_model = here.whole_model;
    Result result = mine.on(here.data);
    const std::lock_guard lock(mutex);
    const auto [first, is_first] = by_part.emplace(here.part, result);
    if (!is_first && !(first->second == result)) throw Error(ErrorKind::internal, "ranks of a part differ");
  });
  Result whole = by_part[0];
  for (std::size_t part = 1; part < parts.size(); ++part) {
    const Result& one = by_part[static_cast<int>(part)];
    EXPECT_EQ(one.norms, whole.norms) << part;
    EXPECT_EQ(one.skipped, whole.skipped) << part;
    EXPECT_EQ(one.loss_scale, whole.loss_scale) << part;
    whole.parameters.insert(whole.parameters.end(), one.parameters.begin(), one.parameters.end());
  }
  return whole;
}

void expect_the_bits_of_one_piece(ZeroTraining job, const Parts& parts) {
  for (const int stage : {0, 1, 2, 3}) {
    job.sharding.stage = stage;
    const Result reference = job.run();
    const Result result = train(job, parts);
    EXPECT_EQ(result.norms, reference.norms) << "stage " << stage;
    EXPECT_EQ(result.skipped, reference.skipped) << "stage " << stage;
    EXPECT_EQ(result.loss_scale, reference.loss_scale) << "stage " << stage;
    EXPECT_TRUE(result.parameters == reference.parameters) << "stage " << stage;
  }
}

ZeroTraining overflowing(int ranks) {
  return {.ranks = ranks,
          .steps = 24,
          .dtype = DataType::f16,
          .stepping = {.clip_norm = 20.0,
                       .loss_scale = LossScalerOptions{.initial = 64, .growth_interval = 4, .hysteresis = 1}},
          .overflow_once_in = 5};
}

TEST(WholeModel, ClipsByTheNormOfAllParts) {
  const ZeroTraining job{.ranks = 1, .stepping = {.clip_norm = 5.0}};
  EXPECT_GT(job.run().norms.front(), 5) << "there should be something to clip";
  expect_the_bits_of_one_piece(job, two_parts);
  expect_the_bits_of_one_piece(job, three_parts);
}

TEST(WholeModel, SoDoDataParallelParts) {
  expect_the_bits_of_one_piece({.ranks = 2, .stepping = {.clip_norm = 5.0}}, two_parts);
  expect_the_bits_of_one_piece({.ranks = 2, .stepping = {.clip_norm = 5.0}, .queued = true}, three_parts);
}

/// Tensors without shapes are adapted where their group says so.
TEST(WholeModel, TrustRatiosAreOfTensorsAndSoOfParts) {
  const auto grouped = [](ZeroTraining job, const ParamLayout& layout) {
    ParamGroup all{.name = "all", .layer_adaptation = true};
    for (int i = 0; i < layout.parameters(); ++i) all.params.push_back(ParamId{i});
    job.stepping.groups = ParamGroups(layout, {all});
    return job;
  };
  for (const Optimizer& rule : {Optimizer(Lamb{.learning_rate = 0.1}), Optimizer(Lars{.learning_rate = 1})}) {
    ZeroTraining job{.ranks = 2, .optimizer = rule, .stepping = {.clip_norm = 5.0}};
    job.sharding.stage = 2;
    const Result reference = grouped(job, ZeroTraining::layout(job.dtype)).run();
    EXPECT_NE(reference.parameters, job.run().parameters) << "ratios should matter";
    std::map<int, Result> by_part;
    std::mutex mutex;
    run_as_threads(4, [&](Communicator all) {
      const Place here = Place::of(all, 2);
      ZeroTraining mine = job;
      mine.part = two_parts[static_cast<std::size_t>(here.part)];
      mine.stepping.whole_model = here.whole_model;
      const Result result = grouped(mine, mine.layout_of_part()).on(here.data);
      const std::lock_guard lock(mutex);
      by_part[here.part] = result;
    });
    std::vector<float> parameters = by_part[0].parameters;
    parameters.insert(parameters.end(), by_part[1].parameters.begin(), by_part[1].parameters.end());
    EXPECT_EQ(parameters, reference.parameters);
  }
}

TEST(WholeModel, OverflowInOnePartSkipsTheStepInAll) {
  const Result reference = overflowing(1).run();
  EXPECT_GE(reference.skipped.size(), 2U);
  EXPECT_LT(reference.skipped.size(), 12U);
  expect_the_bits_of_one_piece(overflowing(1), three_parts);
  expect_the_bits_of_one_piece(overflowing(2), two_parts);
}

TEST(WholeModel, ScalesAlikeWithoutClipping) {
  ZeroTraining job = overflowing(2);
  job.stepping.clip_norm.reset();
  expect_the_bits_of_one_piece(job, two_parts);
}

TEST(WholeModel, ShardsMayLieWithinGroupsOfRanks) {
  ZeroTraining job{.ranks = 4, .stepping = {.clip_norm = 5.0}};
  job.sharding = {.stage = 2, .shard_ranks = 2};
  const Result reference = job.run();
  const Result result = train(job, two_parts);
  EXPECT_EQ(result.norms, reference.norms);
  EXPECT_TRUE(result.parameters == reference.parameters);
}

TEST(WholeModel, NothingWaitsWithoutClippingAndScaling) {
  std::promise<void> over;
  run_as_threads(2, [&](Communicator all) {
    const Place here = Place::of(all, 1);
    ZeroTraining job{.ranks = 1, .steps = 3, .stepping = {.whole_model = here.whole_model}};
    job.part = two_parts[static_cast<std::size_t>(here.part)];
    if (here.part == 1) {
      job.after_step = [future = over.get_future().share()](int step) {
        if (step > 0) return;
        EXPECT_EQ(future.wait_for(std::chrono::seconds(30)), std::future_status::ready);
      };
    }
    (void)job.on(here.data);
    if (here.part == 0) over.set_value();
  });
}

TEST(WholeModel, CopiesOfTiedWeightsCountOnce) {
  const Parts parts{{0, 1, 2, 3, 4}, {3, 5, 6, 7, 8, 9, 10, 11}};
  for (const int stage : {0, 1, 2, 3}) {
    ZeroTraining job = overflowing(2);
    job.sharding.stage = stage;
    const Result reference = job.run();
    run_as_threads(4, [&](Communicator all) {
      const Place here = Place::of(all, 2);
      ZeroTraining mine = job;
      mine.part = parts[static_cast<std::size_t>(here.part)];
      mine.stepping.whole_model = here.whole_model;
      if (here.part == 1) mine.stepping.counted_elsewhere = {ParamId{0}};
      const Result result = mine.on(here.data);
      EXPECT_EQ(result.norms, reference.norms) << stage;
      EXPECT_EQ(result.skipped, reference.skipped) << stage;
      std::vector<float> expected;
      auto value = reference.parameters.begin();
      std::map<int, std::vector<float>> by_number;
      for (int number = 0; number < ZeroTraining::parameters; ++number) {
        by_number[number].assign(value, value + ZeroTraining::count(number));
        value += ZeroTraining::count(number);
      }
      for (const int number : mine.part)
        expected.insert(expected.end(), by_number[number].begin(), by_number[number].end());
      EXPECT_TRUE(result.parameters == expected) << stage;
    });
  }
}

TEST(CountedRanges, LeaveOutWholeParametersWithTheirGaps) {
  const ParamLayout layout(DataType::f32, {{"a", 40}, {"b", 33}, {"c", 64}, {"d", 1}});
  const auto visited = [&](std::vector<ParamId> holes, std::int64_t begin, std::int64_t end) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    detail::CountedRanges(layout, holes).visit(begin, end, [&](std::int64_t from, std::int64_t to) {
      ranges.emplace_back(from, to);
    });
    return ranges;
  };
  using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(visited({}, 32, 200), (Ranges{{32, 200}}));
  EXPECT_EQ(visited({ParamId{1}}, 0, layout.size()), (Ranges{{0, 64}, {128, layout.size()}}));
  EXPECT_EQ(visited({ParamId{1}}, 96, 160), (Ranges{{128, 160}})) << "a part that begins within";
  EXPECT_EQ(visited({ParamId{1}}, 64, 96), (Ranges{})) << "a part within";
  EXPECT_EQ(visited({ParamId{3}, ParamId{0}, ParamId{0}}, 0, layout.size()),
            (Ranges{{64, layout.offset(ParamId{3})}}));
}

class WholeModelRefuses : public testing::Test {
 protected:
  /// Two parts of two ranks each.
  static void expect(
      ErrorKind kind, std::initializer_list<std::string> parts,
      const std::function<ShardedOptimizerOptions(Communicator all, const Place& here)>& options) {
    run_as_threads(4, [&](Communicator all) {
      const Place here = Place::of(all, 2);
      ShardedParams params(here.data, ZeroTraining::layout(DataType::f32), {.stage = 2});
      const ShardedOptimizerOptions mine = options(all, here);
      test::expect_error(kind, parts, [&] { ShardedOptimizer(params, AdamW{}, mine); });
    });
  }
};

TEST_F(WholeModelRefuses, TheRanksThatShareAPart) {
  expect(ErrorKind::mismatch, {"rank 0 is rank 0 of 2 of its part; rank 1 is rank 1 of 2", "other parts"},
         [](Communicator, const Place& here) -> ShardedOptimizerOptions {
           return {.clip_norm = 1.0, .whole_model = here.data};
         });
}

TEST_F(WholeModelRefuses, AllRanks) {
  expect(ErrorKind::mismatch, {"whole_model", "rank 1 of 2"},
         [](Communicator all, const Place&) -> ShardedOptimizerOptions {
           return {.clip_norm = 1.0, .whole_model = all};
         });
}

TEST_F(WholeModelRefuses, PartsThatClipOrScaleDifferently) {
  expect(ErrorKind::mismatch,
         {"rank 0 clips to 1 and does not scale, refuses NaN; rank 1 does not clip and does not scale, does "
          "not look for NaN"},
         [](Communicator, const Place& here) {
           ShardedOptimizerOptions options{.whole_model = here.whole_model};
           if (here.part == 0) options.clip_norm = 1.0;
           return options;
         });
  expect(ErrorKind::mismatch, {"scales from 8,", "scales from 16,"}, [](Communicator, const Place& here) {
    return ShardedOptimizerOptions{.loss_scale = LossScalerOptions{.initial = here.part == 0 ? 8.0 : 16.0},
                                   .whole_model = here.whole_model};
  });
}

TEST_F(WholeModelRefuses, CopiesThatAreNoParameters) {
  expect(ErrorKind::usage, {"counted_elsewhere has parameter 12", "0 to 11"},
         [](Communicator, const Place&) -> ShardedOptimizerOptions {
           return {.counted_elsewhere = {ParamId{12}}};
         });
}

}  // namespace
}  // namespace weft::zero
