// Numbers and names that are none of a parameter, rank, node, unit, bucket or group: every public function that takes one refuses
// it, and names it and how many there are.

#include <gtest/gtest.h>

#include <functional>

#include "support/expect_error.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::zero {
namespace {

struct BadUse {
  const char* name;
  std::function<void(int bad)> call;
};

/// Each call gets the number after the last, -1, and numbers far away.
void expect_numbers_refused(int count, const std::vector<BadUse>& uses) {
  for (const BadUse& use : uses) {
    for (const int bad : {count, -1, 99, -1'000'000'000}) {
      SCOPED_TRACE(testing::Message() << use.name << " of " << bad);
      test::expect_error(ErrorKind::usage, {std::to_string(bad), std::to_string(count)},
                         [&] { use.call(bad); });
    }
  }
}

ParamId numbered(int number) {
  return ParamId{number};
}

const ParamLayout three_parameters(DataType::f32, {{"a", 1000}, {"b", 500}, {"c", 700}});
constexpr int count_of_three = 3;

TEST(BadNumbers, AreRefusedByLayouts) {
  const ParamGroups groups = decay_matrices(three_parameters);
  std::vector<float> memory(static_cast<std::size_t>(three_parameters.size()));
  expect_numbers_refused(
      count_of_three,
      {{"ParamLayout::name", [](int bad) { (void)three_parameters.name(numbered(bad)); }},
       {"ParamLayout::count", [](int bad) { (void)three_parameters.count(numbered(bad)); }},
       {"ParamLayout::shape", [](int bad) { (void)three_parameters.shape(numbered(bad)); }},
       {"ParamLayout::offset", [](int bad) { (void)three_parameters.offset(numbered(bad)); }},
       {"ParamLayout::view",
        [&](int bad) { (void)three_parameters.view(View(std::span(memory)), numbered(bad)); }},
       {"ParamLayout::with_starts", [](int bad) { (void)three_parameters.with_starts({numbered(bad)}, 32); }},
       {"ParamGroups::group_number", [&](int bad) { (void)groups.group_number(numbered(bad)); }}});
}

TEST(BadNumbers, AreRefusedByTopologies) {
  const Topology topology({"x", "x", "y"});
  expect_numbers_refused(3, {{"Topology::node_of", [&](int bad) { (void)topology.node_of(bad); }},
                             {"Topology::local_rank", [&](int bad) { (void)topology.local_rank(bad); }},
                             {"Topology::of", [&](int bad) {
                                (void)topology.of({0, bad});
                              }}});
  expect_numbers_refused(2, {{"Topology::ranks_of", [&](int bad) { (void)topology.ranks_of(bad); }}});
}

TEST(BadNumbers, AreRefusedByCommunicators) {
  run_as_threads(2, [](Communicator comm) {
    std::vector<float> values(4);
    const View data{std::span(values)};
    const Stream stream;
    expect_numbers_refused(2,
                           {{"broadcast", [&](int bad) { comm.broadcast(data, bad, stream); }},
                            {"reduce", [&](int bad) { comm.reduce(data, data, ReduceOp::sum, bad, stream); }},
                            {"Group::send", [&](int bad) { Group(comm).send(data, bad); }},
                            {"Group::receive", [&](int bad) { Group(comm).receive(data, bad); }}});
  });
}

TEST(BadNumbers, AreRefusedByReducers) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, three_parameters);
    const Stream stream;
    std::vector<float> values(10);
    const View data{std::span(values)};
    reducer.begin_step();
    expect_numbers_refused(
        count_of_three,
        {{"gradient", [&](int bad) { (void)reducer.gradient(numbered(bad)); }},
         {"gradient for a stream", [&](int bad) { (void)reducer.gradient(numbered(bad), stream); }},
         {"mark_ready", [&](int bad) { reducer.mark_ready(numbered(bad), stream); }},
         {"mark_ready elsewhere",
          [&](int bad) { reducer.mark_ready(numbered(bad), ConstView(data), stream); }},
         {"mark_ready_in_place", [&](int bad) { reducer.mark_ready_in_place(numbered(bad), data, stream); }},
         {"used", [&](int bad) { (void)reducer.used(numbered(bad)); }}});
    test::expect_error(ErrorKind::usage, {"[7, 9) of no plan"},
                       [&] { (void)reducer.means(Bucket{.begin = 7, .end = 9, .params = {}}); });
    for (int i = count_of_three - 1; i >= 0; --i) reducer.mark_ready(numbered(i), stream);
    reducer.finish_step(stream);
  });
}

TEST(BadNumbers, AreRefusedByShardedParametersAndTheirOptimizer) {
  run_as_threads(2, [](Communicator comm) {
    ShardedParams params(comm, three_parameters, {.stage = 3});
    const std::vector<float> zeros(1000);
    for (int i = 0; i < count_of_three; ++i)
      params.load(numbered(i), ConstView(std::span(zeros)).slice(0, three_parameters.count(numbered(i))));
    ShardedOptimizer optimizer(params, Sgd{});
    const Stream stream;
    params.begin_step();
    expect_numbers_refused(
        count_of_three, {{"unit_of", [&](int bad) { (void)params.unit_of(numbered(bad)); }},
                         {"load", [&](int bad) { params.load(numbered(bad), ConstView(std::span(zeros))); }},
                         {"whole", [&](int bad) { (void)params.whole(numbered(bad)); }},
                         {"is_frozen", [&](int bad) { (void)params.is_frozen(numbered(bad)); }}});
    for (const int bad : {count_of_three, -1, 99}) {
      test::expect_error(ErrorKind::usage, {text("parameter ", bad)},
                         [&] { (void)params.gradient(numbered(bad), stream); });
      test::expect_error(ErrorKind::usage, {text("parameter ", bad)},
                         [&] { params.mark_ready(numbered(bad), stream); });
    }
    expect_numbers_refused(params.units(), {{"gather", [&](int bad) { (void)params.gather(bad, stream); }}});
    {
      const Gathered whole = params.gather(0, stream);
      expect_numbers_refused(count_of_three, {{"Gathered", [&](int bad) { (void)whole[numbered(bad)]; }}});
    }
    test::expect_error(ErrorKind::usage, {"nobody"}, [&] { optimizer.set_rate_factor("nobody", 1); });
  });
}

}  // namespace
}  // namespace weft::zero
