#include "weft/zero/param_groups.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <tuple>

#include "support/expect_error.hpp"
#include "zero/plan/group_runs.hpp"
#include "zero/plan/trained_params.hpp"

namespace weft::zero {
namespace {

const ParamLayout model(DataType::f32, {{.name = "embed", .count = 96, .shape = {12, 8}},
                                        {.name = "bias", .count = 8},
                                        {.name = "gain", .count = 40},
                                        {.name = "head", .count = 64, .shape = {8, 8}}});

std::vector<ParamId> ids(std::initializer_list<int> numbers) {
  std::vector<ParamId> result;
  for (const int number : numbers) result.push_back(ParamId{number});
  return result;
}

ParamGroups some() {
  return {model,
          {{.name = "frozen", .params = ids({0}), .frozen = true},
           {.name = "vectors", .params = ids({2, 1}), .weight_decay = 0.0},
           {.name = "head", .params = ids({3}), .rate_factor = 0.1, .beta1 = 0.5, .epsilon = 1e-6},
           {.name = "empty"}}};
}

TEST(ParamGroups, SayWhoIsWhere) {
  const ParamGroups groups = some();
  EXPECT_EQ(groups.group_number(ParamId{0}), 0);
  EXPECT_EQ(groups.group_number(ParamId{1}), 1);
  EXPECT_EQ(groups.group_number(ParamId{2}), 1);
  EXPECT_EQ(groups.group_number(ParamId{3}), 2);
  EXPECT_EQ(groups.frozen(), ids({0}));
  std::ostringstream out;
  out << groups;
  EXPECT_EQ(out.str(),
            "group frozen: 1 parameters, 96 elements, frozen\n"
            "group vectors: 2 parameters, 48 elements, rate factor 1, weight decay 0, beta1 the optimizer's, "
            "beta2 the optimizer's, epsilon the optimizer's\n"
            "group head: 1 parameters, 64 elements, rate factor 0.10000000000000001, weight decay the "
            "optimizer's, beta1 0.5, beta2 the optimizer's, epsilon 9.9999999999999995e-07\n"
            "group empty: 0 parameters, 0 elements, rate factor 1, weight decay the optimizer's, beta1 the "
            "optimizer's, beta2 the optimizer's, epsilon the optimizer's\n");
}

TEST(ParamGroups, HaveAHashOfEveryOptionAndPlace) {
  const std::uint64_t hash = some().hash();
  EXPECT_EQ(hash, some().hash());
  const auto changed = [&](auto change) {
    std::vector<ParamGroup> groups = some().groups();
    change(groups);
    return ParamGroups(model, groups).hash();
  };
  using Groups = std::vector<ParamGroup>;
  EXPECT_NE(hash, changed([](Groups& g) { g[1].name = "others"; }));
  EXPECT_NE(hash, changed([](Groups& g) { g[1].rate_factor = std::nextafter(1.0, 2.0); }));
  EXPECT_NE(hash, changed([](Groups& g) { g[1].weight_decay.reset(); }));
  EXPECT_NE(hash, changed([](Groups& g) { g[2].beta1 = 0.25; }));
  EXPECT_NE(hash, changed([](Groups& g) { g[2].beta2 = 0.25; }));
  EXPECT_NE(hash, changed([](Groups& g) { g[2].epsilon = 1e-7; }));
  EXPECT_NE(hash, changed([](Groups& g) { g[0].frozen = false; }));
  EXPECT_NE(hash, changed([](Groups& g) { std::swap(g[1].params, g[2].params); }));
}

TEST(ParamGroups, DecayMatricesAlone) {
  const ParamGroups groups = decay_matrices(model);
  ASSERT_EQ(groups.groups().size(), 2U);
  EXPECT_EQ(groups.groups()[0].params, ids({0, 3}));
  EXPECT_EQ(groups.groups()[0].weight_decay, std::nullopt);
  EXPECT_EQ(groups.groups()[1].params, ids({1, 2}));
  EXPECT_EQ(groups.groups()[1].weight_decay, 0.0);
  const ParamLayout vectors(DataType::bf16, {{"gain", 3}});
  EXPECT_TRUE(decay_matrices(vectors).groups()[0].params.empty());
}

void expect_refused(std::initializer_list<std::string> parts, const std::vector<ParamGroup>& groups) {
  test::expect_error(ErrorKind::usage, parts, [&] { (void)ParamGroups(model, groups); });
}

TEST(ParamGroups, RefuseAParameterInTwoGroupsInNoneOrUnknown) {
  const ParamGroup all{.name = "all", .params = ids({0, 1, 2, 3})};
  expect_refused({"parameter 1, bias, is in group all and in group more", "one group"},
                 {all, {.name = "more", .params = ids({1})}});
  expect_refused({"parameter 1, bias, is in group all and in group all"},
                 {{.name = "all", .params = ids({0, 1, 1, 2, 3})}});
  expect_refused({"parameter 2, gain, is in no group", "add it"},
                 {{.name = "all", .params = ids({0, 1, 3})}});
  expect_refused({"parameter 0, embed, is in no group"}, {});
  expect_refused({"group all has parameter 4", "0 to 3"}, {{.name = "all", .params = ids({0, 1, 2, 3, 4})}});
  expect_refused({"group all has parameter -1", "0 to 3"}, {{.name = "all", .params = ids({-1})}});
  expect_refused({"all parameters are frozen", "nothing to train"},
                 {{.name = "all", .params = all.params, .frozen = true}, {.name = "none"}});
}

TEST(ParamGroups, RefuseNamesThatDoNotTellThemApart) {
  expect_refused({"a group is named \"\""}, {{.params = ids({0, 1, 2, 3})}});
  expect_refused({"a group is named \"a\""}, {{.name = "a\nb", .params = ids({0, 1, 2, 3})}});
  expect_refused({"two groups are named all"},
                 {{.name = "all", .params = ids({0, 1, 2, 3})}, {.name = "all"}});
}

TEST(ParamGroups, RefuseOptionsOutOfRange) {
  const auto with = [](auto change) {
    ParamGroup group{.name = "body", .params = ids({0, 1, 2, 3})};
    change(group);
    return std::vector{group};
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, -0.5, infinity, -infinity}) {
    const std::string value = text(bad);
    expect_refused({"the rate factor of group body is " + value, "finite and 0 or more"},
                   with([&](ParamGroup& group) { group.rate_factor = bad; }));
    expect_refused({"group body: weight_decay is " + value, "finite number of 0 or more"},
                   with([&](ParamGroup& group) { group.weight_decay = bad; }));
  }
  for (const double bad : {nan, -0.1, 1.0, 1.5}) {
    const std::string value = text(bad);
    expect_refused({"group body: beta1 is " + value, "less than 1"},
                   with([&](ParamGroup& group) { group.beta1 = bad; }));
    expect_refused({"group body: beta2 is " + value, "less than 1"},
                   with([&](ParamGroup& group) { group.beta2 = bad; }));
  }
  for (const double bad : {nan, 0.0, 2.0, -1e-8})
    expect_refused({"group body: epsilon is " + text(bad), "1e-18 to 1"},
                   with([&](ParamGroup& group) { group.epsilon = bad; }));
  std::vector<ParamGroup> groups = some().groups();
  groups[0].weight_decay = 0.0;
  expect_refused({"group frozen is frozen and has options"}, groups);
  groups[0].weight_decay.reset();
  groups[0].rate_factor = 0;
  expect_refused({"group frozen is frozen and has options"}, groups);
}

TEST(ParamGroups, RefuseOptionsThatTheRuleHasNot) {
  const auto expect = [](std::initializer_list<std::string> parts, const ParamGroup& group) {
    test::expect_error(ErrorKind::usage, parts, [&] { (void)detail::rule_of(Sgd{}, group); });
  };
  expect({"group body has beta2, and SGD has none"}, {.name = "body", .beta2 = 0.9});
  expect({"group body has epsilon, and SGD has none"}, {.name = "body", .epsilon = 1e-8});
  const auto rule =
      detail::rule_of(Sgd{.momentum = 0.9}, {.name = "body", .weight_decay = 0.5, .beta1 = 0.25});
  EXPECT_EQ(std::get<Sgd>(rule).momentum, 0.25);
  EXPECT_EQ(std::get<Sgd>(rule).weight_decay, 0.5);
}

TEST(GroupRuns, CoverARangeOnceAndMergeNeighbours) {
  using Run = std::tuple<std::int64_t, std::int64_t, std::size_t>;
  const auto visited = [](const detail::GroupRuns& runs, std::int64_t begin, std::int64_t end) {
    std::vector<Run> result;
    runs.visit(begin, end, [&](std::int64_t from, std::int64_t to, std::size_t group) {
      result.emplace_back(from, to, group);
    });
    return result;
  };
  const detail::GroupRuns runs(model, {2, 1, 1, 0});  // offsets 0, 96, 128, 192
  EXPECT_EQ(visited(runs, 0, 1000), (std::vector<Run>{{0, 96, 2}, {96, 192, 1}, {192, 1000, 0}}));
  EXPECT_EQ(visited(runs, 96, 192), (std::vector<Run>{{96, 192, 1}}));
  EXPECT_EQ(visited(runs, 95, 193), (std::vector<Run>{{95, 96, 2}, {96, 192, 1}, {192, 193, 0}}));
  EXPECT_EQ(visited(runs, 5, 5), (std::vector<Run>{}));
  EXPECT_EQ(visited(runs, 500, 900), (std::vector<Run>{{500, 900, 0}})) << "padding is the last one's";
  EXPECT_EQ(visited({}, 3, 900), (std::vector<Run>{{3, 900, 0}}));
}

TEST(TrainedParams, HaveTheirOwnLayoutAndNumbers) {
  const detail::TrainedParams params(model, ids({2, 0}));
  EXPECT_EQ(params.trained().parameters(), 2);
  EXPECT_EQ(params.trained().name(ParamId{0}), "bias");
  EXPECT_EQ(params.trained().offset(ParamId{1}), 32);
  EXPECT_EQ(params.trained().shape(ParamId{1}), (std::vector<std::int64_t>{8, 8}));
  EXPECT_EQ(params.frozen()->name(ParamId{1}), "gain");
  EXPECT_EQ(params.number(ParamId{3}), ParamId{1});
  EXPECT_EQ(params.number(ParamId{2}), ParamId{1});
  EXPECT_EQ(params.trained_of(ids({3, 0, 1}), "a list"), ids({1, 0}));
  const auto units = params.units(ids({0, 1, 2, 3}));
  EXPECT_EQ(units.firsts, ids({0, 1}));
  EXPECT_EQ(units.of, (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(params.units({}).firsts, ids({0}));
}

TEST(TrainedParams, AreTheModelWithoutFrozenOnes) {
  const detail::TrainedParams params(model, {});
  EXPECT_EQ(params.trained().hash(), model.hash());
  EXPECT_FALSE(params.frozen());
  EXPECT_EQ(params.number(ParamId{3}), ParamId{3});
  EXPECT_EQ(params.units(ids({0, 2})).firsts, ids({0, 2}));
}

TEST(TrainedParams, RefuseWhatCannotBeFrozen) {
  const auto expect = [](std::initializer_list<std::string> parts, const std::vector<ParamId>& frozen) {
    test::expect_error(ErrorKind::usage, parts, [&] { detail::TrainedParams(model, frozen); });
  };
  expect({"frozen has parameter 4", "0 to 3"}, ids({4}));
  expect({"frozen has parameter -1", "0 to 3"}, ids({-1}));
  expect({"gain is frozen twice"}, ids({2, 2}));
  expect({"all parameters are frozen", "nothing to train"}, ids({3, 2, 1, 0}));
}

}  // namespace
}  // namespace weft::zero
