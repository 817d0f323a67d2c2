// Groups of parameters: every stage, any number of ranks and every place of the state give the bits of a twin
// that steps each parameter by itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"
#include "support/zero_training.hpp"
#include "zero/tensors/optimizer_groups.hpp"
#include "zero/update/update_kernel.hpp"

namespace weft::zero {
namespace {

using test::few_under_tsan;
using test::ZeroTraining;
using Result = ZeroTraining::Result;

constexpr int changes_at = 3;  // the step from which group "fast" has another rate factor

std::vector<ParamId> ids(std::initializer_list<int> numbers) {
  std::vector<ParamId> result;
  for (const int number : numbers) result.push_back(ParamId{number});
  return result;
}

const std::vector<int> trained{1, 2, 3, 4, 5, 7, 8, 9, 10, 11};

/// Parameter 0 is a unit of its own, and frozen; 6 lies among trained ones. Groups alternate in the layout.
std::vector<ParamGroup> groups_for(const Optimizer& rule) {
  ParamGroup own{.name = "own", .params = ids({5, 8, 9}), .weight_decay = 0.3, .beta1 = 0.5};
  if (!std::holds_alternative<Sgd>(rule)) {
    own.beta2 = 0.9;
    own.epsilon = 1e-3;
  } else {
    own.beta1 = 0.0;  // keeps no velocity, beside groups that do
  }
  return {{.name = "frozen", .params = ids({0, 6}), .frozen = true},
          {.name = "fast", .params = ids({1, 2, 7}), .rate_factor = 10},
          {.name = "plain", .params = ids({3, 4, 10, 11})},
          own,
          {.name = "empty", .rate_factor = 3}};
}

/// The same options as written by hand.
struct Options {
  Optimizer rule;
  double rate_factor = 1;
};
Options options_of(const Optimizer& base, int number, int step) {
  if (number == 1 || number == 2 || number == 7) return {base, step < changes_at ? 10 : 0.25};
  if (number != 5 && number != 8 && number != 9) return {base};
  if (const auto* sgd = std::get_if<Sgd>(&base))
    return {Sgd{.learning_rate = sgd->learning_rate, .momentum = 0, .weight_decay = 0.3}};
  if (std::holds_alternative<Adam>(base))
    return {Adam{.beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.3}};
  return {AdamW{.beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.3}};
}

ZeroTraining grouped(ZeroTraining job) {
  job.coarse = true;
  job.rates = {1e-2, 3e-3, 2e-2, 0, 5e-3};
  const ParamGroups groups(ZeroTraining::layout(job.dtype), groups_for(job.optimizer));
  job.sharding.frozen = groups.frozen();
  job.stepping.groups = groups;
  job.before_step = [](int step, ShardedOptimizer& optimizer) {
    if (step == changes_at) optimizer.set_rate_factor("fast", 0.25);
  };
  return job;
}

/// One parameter with its own arrays, stepped by the plain loop. Means have no rounding.
class Alone {
 public:
  Alone(const ZeroTraining& job, int number)
      : job_(job), number_(number), count_(ZeroTraining::count(number)) {
    for (Buffer* buffer : {&gradient_, &parameters_, &low_}) *buffer = Buffer::on_host(job.dtype, count_);
    for (Buffer* buffer : {&master_, &first_, &second_}) *buffer = Buffer::on_host(DataType::f32, count_);
    for (std::int64_t i = 0; i < count_; ++i) {
      ZeroTraining::put(parameters_.view(), i, 0.1F * job.noise(0, 0, ParamId{number}, i));
      ZeroTraining::put(master_.view(), i, ZeroTraining::get(parameters_.view(), i));
    }
  }

  double draw_means(int step) {  // returns the sum of squares
    double squares = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      float sum = 0;
      for (int rank = 0; rank < job_.ranks; ++rank) sum += job_.slope_at(0, step, rank, ParamId{number_}, i);
      const float mean = sum / static_cast<float>(job_.ranks);
      ZeroTraining::put(gradient_.view(), i, mean);
      squares += static_cast<double>(mean) * static_cast<double>(mean);
    }
    return squares;
  }

  void update(int step, double gradient_scale) {
    const Options options = options_of(job_.optimizer, number_, step);
    const auto factors = detail::factors(options.rule, step + 1,
                                         job_.learning_rate(step) * options.rate_factor, gradient_scale);
    const bool split = job_.stepping.master == Master::split;
    const auto form = job_.dtype == DataType::f32   ? detail::Form::f32
                      : job_.dtype == DataType::f16 ? detail::Form::f16
                      : split                       ? detail::Form::split
                                                    : detail::Form::bf16;
    void* master = form == detail::Form::f32     ? nullptr
                   : form == detail::Form::split ? low_.view().data()
                                                 : master_.view().data();
    detail::plain::update({.gradient = gradient_.view().data(),
                           .parameters = parameters_.view().data(),
                           .master = master,
                           .first = first_.as<float>().data(),
                           .second = second_.as<float>().data(),
                           .count = count_,
                           .gradient_type = job_.dtype,
                           .form = form},
                          factors);
  }

  void put(std::vector<float>& to) const {
    for (std::int64_t i = 0; i < count_; ++i) to.push_back(ZeroTraining::get(parameters_.view(), i));
  }

 private:
  const ZeroTraining& job_;
  int number_;
  std::int64_t count_;
  Buffer gradient_, parameters_, low_, master_, first_, second_;
};

/// The slow and obvious training.
Result twin(const ZeroTraining& job) {
  std::vector<Alone> all;
  for (int number = 0; number < ZeroTraining::parameters; ++number) all.emplace_back(job, number);
  Result result;
  for (int step = 0; step < job.steps; ++step) {
    double squares = 0;
    for (const int number : trained) squares += all[static_cast<std::size_t>(number)].draw_means(step);
    double clip = 1;
    if (job.stepping.clip_norm) {
      result.norms.push_back(std::sqrt(squares));
      clip = std::max(1.0, (result.norms.back() + 1e-6) / *job.stepping.clip_norm);
    }
    for (const int number : trained) all[static_cast<std::size_t>(number)].update(step, 1 / clip);
  }
  for (const Alone& one : all) one.put(result.parameters);
  return result;
}

void expect_the_twin_in_every_stage(ZeroTraining job) {
  job = grouped(std::move(job));
  const Result reference = twin(job);
  for (const int ranks : few_under_tsan<int>({1, 2, 4}, 1)) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const bool queued : {false, true}) {
        job.sharding.stage = stage;
        job.sharding.bucket_bytes = queued ? 3000 : 1 << 20;
        job.queued = queued;
        job.ranks = ranks;
        const Result expected = ranks == 2 ? reference : twin(job);
        const Result result = job.run();
        EXPECT_EQ(result.norms, expected.norms) << "stage " << stage << ", ranks " << ranks;
        EXPECT_TRUE(result.parameters == expected.parameters) << "stage " << stage << ", ranks " << ranks;
      }
    }
  }
}

// A rank's state is made for the rule that keeps most; a group that is empty or frozen does not count.
TEST(OptimizerGroups, KeepTheMostMomentsThatATrainedParameterHas) {
  const ParamLayout layout(DataType::f32, {{"a", 4}, {"b", 4}, {"c", 4}});
  const auto kept = [&](std::optional<double> first, std::optional<double> second) {
    const ParamGroups groups(layout, {{.name = "first", .params = ids({0}), .beta1 = first},
                                      {.name = "second", .params = ids({1}), .beta1 = second},
                                      {.name = "empty"},
                                      {.name = "frozen", .params = ids({2}), .frozen = true}});
    const detail::TrainedParams params(layout, groups.frozen());
    const detail::OptimizerGroups made(Sgd{.momentum = 0.9}, groups, params, params.trained());
    return std::get<Sgd>(made.rule_of_state()).momentum;
  };
  EXPECT_EQ(kept({}, 0.0), 0.9);
  EXPECT_EQ(kept(0.0, 0.5), 0.5);
  EXPECT_EQ(kept(0.0, 0.0), 0) << "the optimizer's momentum is no group's";
}

TEST(OptimizerGroups, TakeEachRateTimesItsFactor) {
  const ParamLayout layout(DataType::f32, {{"a", 4}, {"b", 4}});
  const ParamGroups groups(
      layout, {{.name = "one", .params = ids({0})}, {.name = "two", .params = ids({1}), .rate_factor = 0.3}});
  const detail::TrainedParams params(layout, {});
  detail::OptimizerGroups made(Sgd{}, groups, params, layout);
  const auto rates = [&](double rate) {
    const auto factors = made.factors(1, rate, 1);
    return std::pair(factors->by_group[0].rate, factors->by_group[1].rate);
  };
  EXPECT_EQ(rates(0.7), std::pair(0.7, 0.7 * 0.3));
  made.set_rate_factor("one", 2);
  EXPECT_EQ(rates(0.1), std::pair(0.2, 0.1 * 0.3));
}

TEST(GroupTraining, HasTheBitsOfParametersSteppedByThemselves) {
  expect_the_twin_in_every_stage({});
}

TEST(GroupTraining, SoHaveOtherRules) {
  expect_the_twin_in_every_stage(
      {.optimizer = Sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.1}});
  expect_the_twin_in_every_stage({.optimizer = Adam{.learning_rate = 0.01, .weight_decay = 0.1}});
}

TEST(GroupTraining, TheNormIsThatOfTrainedParameters) {
  expect_the_twin_in_every_stage({.stepping = {.clip_norm = 5.0}});
}

TEST(GroupTraining, SoHaveSixteenBitsWithEitherMaster) {
  expect_the_twin_in_every_stage({.dtype = DataType::bf16});
  expect_the_twin_in_every_stage({.dtype = DataType::f16});
  expect_the_twin_in_every_stage({.dtype = DataType::bf16, .stepping = {.master = Master::split}});
}

TEST(GroupTraining, SoHasOffloadedStateInMemoryAndInFiles) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  for (const int stage : {0, 2, 3}) {
    for (const bool says_rate : {false, true}) {
      for (const std::string& directory : {std::string(), folder}) {
        ZeroTraining job = grouped({.says_rate = says_rate});
        job.sharding.stage = stage;
        job.sharding.offload_parameters = stage == 3;
        job.stepping.offload = {.share = 0.6, .tile_bytes = 1024, .directory = directory};
        job.offloads = {0.5, 1, 0.25};
        EXPECT_TRUE(job.run().parameters == twin(job).parameters) << stage << ' ' << says_rate << directory;
      }
    }
  }
}

TEST(GroupTraining, SoHasHybridSharding) {
  ZeroTraining job = grouped({.ranks = 4});
  job.sharding.stage = 3;
  job.sharding.shard_ranks = 2;
  job.sharding.whole_below = 600;
  EXPECT_TRUE(job.run().parameters == twin(job).parameters);
}

TEST(GroupTraining, PartsOfAModelHaveGroupsOfTheirOwn) {
  ZeroTraining job = grouped({.stepping = {.clip_norm = 5.0}});
  const Result reference = twin(job);
  const std::vector<std::vector<int>> parts{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9, 10, 11}};
  run_as_threads(4, [&](Communicator all) {
    const auto part = static_cast<std::size_t>(all.rank() / 2);
    const Communicator data = *all.split(static_cast<int>(part), all.rank());
    ZeroTraining mine = job;
    mine.sharding.stage = 2;
    mine.part = parts[part];
    std::vector<ParamGroup> groups = groups_for(job.optimizer);
    for (ParamGroup& group : groups) {
      std::erase_if(group.params, [&](ParamId id) {
        return std::ranges::find(mine.part, static_cast<int>(id)) == mine.part.end();
      });
      for (ParamId& id : group.params) id = ParamId{static_cast<int>(id) - mine.part.front()};
    }
    mine.stepping.groups = ParamGroups(mine.layout_of_part(), groups);
    mine.sharding.frozen = mine.stepping.groups->frozen();
    mine.stepping.whole_model = *all.split(data.rank(), static_cast<int>(part));
    const Result result = mine.on(data);
    EXPECT_EQ(result.norms, reference.norms);
    std::int64_t begin = 0;
    for (int number = 0; number < mine.part.front(); ++number) begin += ZeroTraining::count(number);
    const auto first = reference.parameters.begin() + begin;
    EXPECT_TRUE(std::equal(result.parameters.begin(), result.parameters.end(), first)) << part;
  });
}

TEST(GroupTraining, OneGroupOfAllHasTheBitsOfNone) {
  for (const int stage : {0, 2}) {
    ZeroTraining job{.stepping = {.clip_norm = 5.0}};
    job.sharding.stage = stage;
    const Result reference = job.run();
    ParamGroup all{.name = "all"};
    for (int i = 0; i < ZeroTraining::parameters; ++i) all.params.push_back(ParamId{i});
    job.stepping.groups = ParamGroups(ZeroTraining::layout(job.dtype), {all});
    EXPECT_TRUE(job.run() == reference) << stage;
  }
}

std::int64_t frozen_bytes() {
  const ParamLayout frozen(DataType::f32, {{"0", ZeroTraining::count(0)}, {"6", ZeroTraining::count(6)}});
  return static_cast<std::int64_t>(frozen.size_bytes());
}

TEST(Frozen, CostNoGradientNoStateAndNoBytes) {
  for (const int stage : {0, 1, 2, 3}) {
    ZeroTraining job = grouped({.ranks = 4});
    job.sharding.stage = stage;
    const Result result = job.run();
    // The same training of a model that has the trained parameters alone.
    ZeroTraining without = job;
    without.part = trained;
    without.sharding.frozen = {};
    without.sharding.units = ids({0, 4, 7});
    std::vector<ParamGroup> groups = groups_for(job.optimizer);
    groups.erase(groups.begin());
    for (ParamGroup& group : groups) {
      for (ParamId& id : group.params)
        id = ParamId{static_cast<int>(std::ranges::find(trained, static_cast<int>(id)) - trained.begin())};
    }
    without.stepping.groups = ParamGroups(without.layout_of_part(), groups);
    const Result alone = without.run();
    EXPECT_EQ(result.wire_bytes, alone.wire_bytes) << stage;
    EXPECT_EQ(result.held_bytes, alone.held_bytes + frozen_bytes()) << stage;
    EXPECT_GT(alone.wire_bytes, 0U);
  }
}

TEST(Frozen, AreNotInTheGradients) {
  run_as_threads(2, [](Communicator comm) {
    ShardedParams params(comm, ZeroTraining::layout(DataType::f32), {.stage = 0, .frozen = ids({0, 6})});
    EXPECT_EQ(params.reducer().layout().parameters(), ZeroTraining::parameters - 2);
    EXPECT_EQ(params.layout().parameters(), ZeroTraining::parameters);
    EXPECT_EQ(params.reducer().gradients().count(), params.reducer().layout().size());
    EXPECT_TRUE(params.is_frozen(ParamId{6}));
    EXPECT_FALSE(params.is_frozen(ParamId{5}));
    params.begin_step();
    const Stream compute;
    test::expect_error(ErrorKind::usage, {"gradient of parameter6, which is frozen", "leave it out"},
                       [&] { (void)params.gradient(ParamId{6}, compute); });
    test::expect_error(ErrorKind::usage, {"mark_ready of parameter0, which is frozen"},
                       [&] { params.mark_ready(ParamId{0}, compute); });
  });
}

TEST(Frozen, AreComparedWithTheOtherInitialValues) {
  for (const int stage : {0, 3}) {
    run_as_threads(3, [&](Communicator comm) {
      const ParamLayout layout = ZeroTraining::layout(DataType::f32);
      ShardedParams params(comm, layout, {.stage = stage, .frozen = ids({6})});
      for (int i = 0; i < layout.parameters(); ++i) {
        const std::vector<float> values(static_cast<std::size_t>(layout.count(ParamId{i})),
                                        i == 6 && comm.rank() == 2 ? 2.0F : 1.0F);
        params.load(ParamId{i}, ConstView(std::span(values)));
      }
      test::expect_error(ErrorKind::mismatch, {"different values", "parameter6", "on rank 2"},
                         [&] { (void)params.gather(0, Stream()); });
    });
  }
}

TEST(Frozen, TakeTheValuesOfRankZeroWhereAsked) {
  run_as_threads(2, [](Communicator comm) {
    const ParamLayout layout = ZeroTraining::layout(DataType::f32);
    ShardedParams params(comm, layout,
                         {.stage = 3, .frozen = ids({2}), .initial_values = InitialValues::from_rank_0});
    const std::vector<float> values(static_cast<std::size_t>(layout.count(ParamId{2})),
                                    1.0F + static_cast<float>(comm.rank()));
    params.load(ParamId{2}, ConstView(std::span(values)));
    const Buffer whole = params.whole(ParamId{2});
    for (const float value : whole.as<float>()) EXPECT_EQ(value, 1.0F);
  });
}

TEST(Frozen, DifferOverRanksByName) {
  run_as_threads(3, [](Communicator comm) {
    const ParamLayout layout = ZeroTraining::layout(DataType::f32);
    const auto expect = [&](const std::vector<ParamId>& frozen, std::initializer_list<std::string> parts) {
      test::expect_error(ErrorKind::mismatch, parts,
                         [&] { ShardedParams(comm, layout, {.stage = 2, .frozen = frozen}); });
    };
    expect(comm.rank() == 2 ? ids({3, 5}) : ids({3, 4}),
           {"frozen parameter 1 is parameter4 on rank 0 and parameter5 on rank 2"});
    expect(comm.rank() == 1 ? ids({}) : ids({3}),
           {"rank 0 has 1 frozen parameters and rank 1 0: parameter3 is only on rank 0"});
  });
}

class GroupRefusals : public testing::Test {
 protected:
  static void with(const std::function<void(Communicator, ShardedParams&)>& body, int ranks = 1) {
    run_as_threads(ranks, [&](Communicator comm) {
      ShardedParams params(comm, ZeroTraining::layout(DataType::f32), {.stage = 2, .frozen = ids({0, 6})});
      body(comm, params);
    });
  }
  static ParamGroups groups() { return {ZeroTraining::layout(DataType::f32), groups_for(AdamW{})}; }
};

TEST_F(GroupRefusals, GroupsThatDifferOverRanks) {
  with(
      [](Communicator comm, ShardedParams& params) {
        const auto expect = [&](std::initializer_list<std::string> parts, int rank, auto change) {
          std::vector<ParamGroup> mine = groups().groups();
          if (comm.rank() == rank) change(mine);
          const ParamGroups here(groups().layout(), mine);
          test::expect_error(ErrorKind::mismatch, parts,
                             [&] { ShardedOptimizer(params, AdamW{}, {.groups = here}); });
        };
        using Groups = std::vector<ParamGroup>;
        expect({"different parameter groups", "weight decay 0.29999999999999999 of group own on rank 0",
                "weight decay 0.5 of group own on rank 2"},
               2, [](Groups& mine) { mine[3].weight_decay = 0.5; });
        expect({"rate factor 10 of group fast on rank 0 and", "rate factor 11 of group fast on rank 1"}, 1,
               [](Groups& mine) { mine[1].rate_factor = 11; });
        expect(
            {"the place of parameter3 in group plain on rank 0 and the place of parameter3 in group fast on "
             "rank 1"},
            1, [](Groups& mine) {
              mine[2].params.erase(mine[2].params.begin());
              mine[1].params.push_back(ParamId{3});
            });
        ShardedOptimizerOptions options;
        if (comm.rank() != 1) options.groups = groups();
        test::expect_error(ErrorKind::mismatch,
                           {"the name frozen of group 0 on rank 0 and one group of all parameters on rank 1"},
                           [&] { ShardedOptimizer(params, AdamW{}, options); });
      },
      3);
}

TEST_F(GroupRefusals, GroupsThatFreezeOthersThanTheParametersDo) {
  with([](Communicator, ShardedParams& params) {
    std::vector<ParamGroup> mine = groups().groups();
    mine[1].params.push_back(ParamId{6});
    mine[0].params = ids({0});
    test::expect_error(
        ErrorKind::usage,
        {"parameter6 is in group fast, which is trained, and ShardedParams froze it", "frozen()"},
        [&] { ShardedOptimizer(params, AdamW{}, {.groups = ParamGroups(groups().layout(), mine)}); });
    mine = groups().groups();
    mine[0].params.push_back(ParamId{1});
    mine[1].params = ids({2, 7});
    test::expect_error(
        ErrorKind::usage, {"parameter1 is in group frozen, which is frozen, and ShardedParams trains it"},
        [&] { ShardedOptimizer(params, AdamW{}, {.groups = ParamGroups(groups().layout(), mine)}); });
  });
}

TEST_F(GroupRefusals, GroupsOfAnotherModelOrRule) {
  with([](Communicator, ShardedParams& params) {
    const ParamLayout other(DataType::f32, {{"one", 1}});
    const ParamGroups of_other(other, {{.name = "all", .params = ids({0})}});
    test::expect_error(ErrorKind::usage, {"groups of 1 parameters of f32", "one layout"},
                       [&] { ShardedOptimizer(params, AdamW{}, {.groups = of_other}); });
    test::expect_error(ErrorKind::usage, {"group own has beta2, and SGD has none"},
                       [&] { ShardedOptimizer(params, Sgd{}, {.groups = groups()}); });
    test::expect_error(ErrorKind::usage, {"counted_elsewhere has parameter 12", "0 to 11"},
                       [&] { ShardedOptimizer(params, AdamW{}, {.counted_elsewhere = {ParamId{12}}}); });
  });
}

TEST_F(GroupRefusals, RateFactorsOfNoGroupOutOfRangeOrTooLate) {
  with([](Communicator, ShardedParams& params) {
    ShardedOptimizer adam(params, AdamW{}, {.groups = groups()});
    const auto expect = [&](std::initializer_list<std::string> parts, const char* name, double factor) {
      test::expect_error(ErrorKind::usage, parts, [&] { adam.set_rate_factor(name, factor); });
    };
    expect({"group slow", "groups are frozen, fast, plain, own, empty"}, "slow", 1);
    expect({"group frozen, which is frozen"}, "frozen", 1);
    for (const double bad : {-1.0, std::nan(""), HUGE_VAL})
      expect({"the rate factor of group fast is " + text(bad)}, "fast", bad);
    adam.begin_step(1e-3);
    expect({"group fast is set after begin_step", "before the step begins"}, "fast", 1);
  });
  with([](Communicator, ShardedParams& params) {
    ShardedOptimizer none(params, AdamW{});
    test::expect_error(ErrorKind::usage, {"group fast", "without groups"},
                       [&] { none.set_rate_factor("fast", 1); });
  });
}

TEST_F(GroupRefusals, FrozenParametersThatAreUnknownTwiceOrAll) {
  run_as_threads(1, [](Communicator comm) {
    const ParamLayout layout(DataType::f32, {{"a", 4}, {"b", 4}});
    const auto expect = [&](std::initializer_list<std::string> parts, const std::vector<ParamId>& frozen) {
      test::expect_error(ErrorKind::usage, parts,
                         [&] { ShardedParams(comm, layout, {.stage = 0, .frozen = frozen}); });
    };
    expect({"frozen has parameter 2", "0 to 1"}, ids({2}));
    expect({"a is frozen twice"}, ids({0, 0}));
    expect({"all parameters are frozen"}, ids({1, 0}));
  });
}

}  // namespace
}  // namespace weft::zero
