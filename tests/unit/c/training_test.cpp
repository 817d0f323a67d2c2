// Trainings through C beside the same through the C++ classes, and beside a loop: the same bits.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "support/temporary_folder.hpp"
#include "unit/c/some_of_each.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/compression/hook_named.hpp"
#include "weft/gradient/gradient_reducer.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::test {
namespace {

constexpr std::array<std::int64_t, 4> rows{300, 17, 40, 1};
constexpr std::array<std::int64_t, 4> columns{20, 1, 50, 3};
constexpr int parameters = 4, steps = 6;

std::int64_t count(int id) {
  return rows[static_cast<std::size_t>(id)] * columns[static_cast<std::size_t>(id)];
}
float gradient(int rank, int step, int id, std::int64_t i) {
  return static_cast<float>((i * 7 + rank * 13 + step * 5 + id) % 64) * 0.37F - 11;
}
float initial(int id, std::int64_t i) {
  return static_cast<float>((i * 3 + id) % 101) * 0.01F - 0.5F;
}

weft_layout_t layout_in_c() {
  weft_layout_t layout = nullptr;
  expect_ok(weft_layout_create(WEFT_F32, &layout));
  for (int id = 0; id < parameters; ++id) {
    const std::int64_t shape[2] = {rows[static_cast<std::size_t>(id)], columns[static_cast<std::size_t>(id)]};
    const std::string name = "p" + std::to_string(id);
    EXPECT_EQ(weft_layout_add(layout, name.c_str(), shape, 2, nullptr), id);
    EXPECT_EQ(weft_layout_count(layout, id), count(id));
  }
  EXPECT_EQ(weft_layout_parameters(layout), parameters);
  return layout;
}
ParamLayout layout_in_cpp() {
  std::vector<ParamSpec> specs;
  for (int id = 0; id < parameters; ++id)
    specs.push_back({.name = "p" + std::to_string(id),
                     .count = count(id),
                     .shape = {rows[static_cast<std::size_t>(id)], columns[static_cast<std::size_t>(id)]}});
  return ParamLayout(DataType::f32, specs);
}

using Values = std::vector<std::vector<float>>;

/// The means of all steps, by parameter, as a loop has them.
Values means_of_a_loop(int ranks) {
  Values all(parameters);
  for (int step = 0; step < steps; ++step) {
    for (int id = 0; id < parameters; ++id) {
      for (std::int64_t i = 0; i < count(id); ++i) {
        float sum = gradient(0, step, id, i);
        for (int rank = 1; rank < ranks; ++rank) sum += gradient(rank, step, id, i);
        all[static_cast<std::size_t>(id)].push_back(sum / static_cast<float>(ranks));
      }
    }
  }
  return all;
}

/// Calls `body` on so many ranks in C; what it returns of each.
template <class Result, class Body>
std::vector<Result> on_ranks_in_c(int ranks, Body body) {
  struct OfRanks {
    Body body;
    std::vector<Result> results;
  } call{body, std::vector<Result>(static_cast<std::size_t>(ranks))};
  const auto of_rank = [](weft_comm_t comm, void* context) -> weft_status_t {
    auto& mine = *static_cast<OfRanks*>(context);
    weft_stream_t stream = nullptr;
    expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
    mine.results[static_cast<std::size_t>(weft_comm_rank(comm))] = mine.body(comm, stream);
    expect_ok(weft_stream_free(stream));
    return WEFT_OK;
  };
  expect_ok(weft_comm_run_as_threads(ranks, nullptr, of_rank, &call));
  return call.results;
}

/// How gradients reach the reducer.
enum class Way { arena, copied, in_place };

Values reduced_in_c(weft_comm_t comm, weft_stream_t stream, const weft_reducer_options_t* options, Way way,
                    const std::vector<int>& backward) {
  weft_layout_t layout = layout_in_c();
  weft_reducer_t reducer = nullptr;
  expect_ok(weft_reducer_create(comm, layout, options, &reducer));
  expect_ok(weft_layout_free(layout));
  std::vector<weft_buffer_t> own(parameters);
  for (int id = 0; id < parameters; ++id)
    expect_ok(weft_buffer_create(comm, WEFT_F32, count(id), &own[static_cast<std::size_t>(id)]));
  Values all(parameters);
  for (int step = 0; step < steps; ++step) {
    expect_ok(weft_reducer_begin_step(reducer, WEFT_EXCHANGE_NOW));
    EXPECT_EQ(weft_reducer_accumulating(reducer), 0);
    std::vector<void*> means(parameters);
    for (const int id : backward) {
      const auto at = static_cast<std::size_t>(id);
      means[at] = weft_reducer_gradient(reducer, id);
      auto* const place = static_cast<float*>(way == Way::arena ? means[at] : weft_buffer_data(own[at]));
      for (std::int64_t i = 0; i < count(id); ++i) place[i] = gradient(weft_comm_rank(comm), step, id, i);
      if (way == Way::arena) expect_ok(weft_reducer_ready(reducer, id, stream));
      if (way == Way::copied) expect_ok(weft_reducer_ready_from(reducer, id, place, stream));
      if (way == Way::in_place)
        expect_ok(weft_reducer_ready_in_place(reducer, id, place, stream, &means[at]));
      expect_ok(weft_reducer_poll(reducer));
    }
    expect_ok(weft_reducer_finish_step(reducer, stream));
    expect_ok(weft_stream_synchronize(stream, 60));
    for (std::size_t id = 0; id < all.size(); ++id) {
      const auto* const mean = static_cast<const float*>(means[id]);
      all[id].insert(all[id].end(), mean, mean + count(static_cast<int>(id)));
    }
  }
  std::array<weft_step_account_t, 4> accounts{};
  EXPECT_EQ(weft_reducer_account(reducer, accounts.data(), sizeof accounts[0], 4), 4);
  EXPECT_GT(accounts[3].seconds, 0);
  EXPECT_EQ(accounts[3].step, accounts[2].step + 1);
  EXPECT_GE(weft_reducer_exposed_seconds(reducer), 0);
  EXPECT_GT(weft_reducer_held_bytes(reducer), 0);
  expect_ok(weft_reducer_free(reducer));
  for (const weft_buffer_t one : own) expect_ok(weft_buffer_free(one));
  return all;
}

TEST(TrainingInC, MeansAreThoseOfALoopWhereverGradientsLieAndInEveryOrderOfBackward) {
  for (const int ranks : {1, 3}) {
    const Values expected = means_of_a_loop(ranks);
    for (const Way way : {Way::arena, Way::copied, Way::in_place}) {
      for (const bool has_order : {false, true}) {
        for (const bool has_buckets : {false, true}) {
          SCOPED_TRACE(text(ranks, " ranks, way ", static_cast<int>(way), has_order ? ", an order" : "",
                            has_buckets ? ", buckets" : ""));
          const std::vector<int> backward =
              has_order ? std::vector<int>{2, 0, 3, 1} : std::vector<int>{3, 2, 1, 0};
          weft_reducer_options_t options{};
          options.size = sizeof options;
          if (has_order) options.order = backward.data(), options.order_count = parameters;
          if (has_buckets) options.bucket_bytes = 4096, options.alone_bytes = 2048;
          const auto all = on_ranks_in_c<Values>(ranks, [&](weft_comm_t comm, weft_stream_t stream) {
            return reduced_in_c(comm, stream, &options, way, backward);
          });
          for (const Values& one : all) EXPECT_EQ(one, expected);
        }
      }
    }
  }
}

// Through a hook by name the bits are those of the same reducer in C++.
TEST(TrainingInC, AHookByNameGivesTheBitsOfTheSameHookInCpp) {
  for (const char* const hook : {"bf16", "int8", "powersgd:2"}) {
    SCOPED_TRACE(hook);
    std::vector<Values> expected(2);
    run_as_threads(2, [&](Communicator comm) {
      Stream stream;
      GradientReducer reducer(comm, layout_in_cpp(),
                              {.buckets = BucketBytes{8192}, .hook = hook_named(hook, 2)});
      Values& mine = expected[static_cast<std::size_t>(comm.rank())];
      mine.resize(parameters);
      for (int step = 0; step < steps; ++step) {
        reducer.begin_step();
        for (int id = parameters - 1; id >= 0; --id) {
          const auto place = reducer.gradient(ParamId{id}).as<float>();
          for (std::int64_t i = 0; i < count(id); ++i)
            place[static_cast<std::size_t>(i)] = gradient(comm.rank(), step, id, i);
          reducer.mark_ready(ParamId{id}, stream);
        }
        reducer.finish_step(stream);
        stream.synchronize();
        for (int id = 0; id < parameters; ++id) {
          const auto mean = reducer.gradient(ParamId{id}).as<float>();
          auto& to = mine[static_cast<std::size_t>(id)];
          to.insert(to.end(), mean.begin(), mean.end());
        }
      }
    });
    weft_reducer_options_t options{};
    options.size = sizeof options;
    options.hook = hook;
    options.hook_start_step = 2;
    options.bucket_bytes = 8192;
    const auto all = on_ranks_in_c<Values>(2, [&](weft_comm_t comm, weft_stream_t stream) {
      return reduced_in_c(comm, stream, &options, Way::arena, {3, 2, 1, 0});
    });
    EXPECT_EQ(all, expected);
  }
}

TEST(TrainingInC, GradientsAccumulateUnusedParametersAreFoundAndBadValuesNamed) {
  on_ranks_in_c<int>(2, [](weft_comm_t comm, weft_stream_t stream) {
    const int rank = weft_comm_rank(comm);
    weft_layout_t layout = layout_in_c();
    weft_reducer_options_t options{};
    options.size = sizeof options;
    options.unused = WEFT_UNUSED_FIND;
    options.count_bad_values = 1;
    weft_reducer_t reducer = nullptr;
    expect_ok(weft_reducer_create(comm, layout, &options, &reducer));
    expect_ok(weft_layout_free(layout));
    const auto fill = [&](int id, float value) {
      auto* const place = static_cast<float*>(weft_reducer_gradient(reducer, id));
      const bool adds = weft_reducer_accumulating(reducer) == 1;
      for (std::int64_t i = 0; i < count(id); ++i) place[i] = adds ? place[i] + value : value;
      expect_ok(weft_reducer_ready(reducer, id, stream));
    };
    for (const weft_exchange_t exchange :
         {weft_exchange_t{WEFT_NO_SYNC}, weft_exchange_t{WEFT_EXCHANGE_NOW}}) {
      expect_ok(weft_reducer_begin_step(reducer, exchange));
      fill(0, 2);
      if (rank == 1) fill(1, 6);  // the other has none
      fill(3, 1);
      expect_ok(weft_reducer_finish_step(reducer, stream));
    }
    expect_ok(weft_stream_synchronize(stream, 60));
    EXPECT_EQ(static_cast<float*>(weft_reducer_gradient(reducer, 0))[5], 2.0F);
    EXPECT_EQ(static_cast<float*>(weft_reducer_gradient(reducer, 1))[5], 3.0F);
    EXPECT_EQ(weft_reducer_used(reducer, 1), 1);
    EXPECT_EQ(weft_reducer_used(reducer, 2), 0);
    EXPECT_EQ(weft_reducer_used(reducer, 4), -1);
    expect_said("a parameter of number 4 in a layout of 4");
    EXPECT_EQ(weft_reducer_bad_values(reducer, nullptr, sizeof(weft_bad_values_t), 0), 0);
    expect_ok(weft_reducer_begin_step(reducer, WEFT_EXCHANGE_NOW));
    fill(0, rank == 1 ? __builtin_nanf("") : 1);
    fill(2, rank == 1 ? __builtin_inff() : 1);
    expect_ok(weft_reducer_finish_step(reducer, stream));
    std::array<weft_bad_values_t, 2> bad{};
    EXPECT_EQ(weft_reducer_bad_values(reducer, bad.data(), sizeof bad[0], 2), 1);
    EXPECT_EQ(bad[0].rank, 1);
    EXPECT_EQ(bad[0].first, 0);
    EXPECT_EQ(bad[0].nans, count(0));
    EXPECT_EQ(bad[0].infinities, count(2));
    EXPECT_EQ(weft_reducer_bad_values(reducer, bad.data(), 1, 2), -1);
    expect_said("a weft_bad_values_t whose size is 1 bytes");
    expect_ok(weft_stream_synchronize(stream, 60));
    expect_ok(weft_reducer_free(reducer));
    return 0;
  });
}

TEST(TrainingInC, InitialValuesThatDifferAreNamed) {
  on_ranks_in_c<int>(2, [](weft_comm_t comm, weft_stream_t) {
    weft_layout_t layout = layout_in_c();
    Values all;
    std::vector<void*> places;
    for (int id = 0; id < parameters; ++id) {
      all.emplace_back(static_cast<std::size_t>(count(id)),
                       static_cast<float>(id == 2 ? weft_comm_rank(comm) : 7));
      places.push_back(all.back().data());
    }
    EXPECT_EQ(weft_sync_initial_values(comm, layout, places.data(), WEFT_HOST, WEFT_COMPARE), WEFT_MISMATCH);
    expect_said("p2");
    expect_ok(weft_layout_free(layout));
    return 0;
  });
  on_ranks_in_c<int>(2, [](weft_comm_t comm, weft_stream_t) {
    weft_layout_t layout = layout_in_c();
    Values all;
    std::vector<void*> places;
    for (int id = 0; id < parameters; ++id) {
      all.emplace_back(static_cast<std::size_t>(count(id)), static_cast<float>(weft_comm_rank(comm) + 5));
      places.push_back(all.back().data());
    }
    expect_ok(weft_sync_initial_values(comm, layout, places.data(), WEFT_HOST, WEFT_FROM_RANK_0));
    for (const auto& one : all) EXPECT_EQ(one, std::vector<float>(one.size(), 5.0F));
    EXPECT_EQ(weft_sync_initial_values(comm, layout, nullptr, WEFT_HOST, WEFT_COMPARE), WEFT_USAGE);
    expect_said("`values` is NULL");
    expect_ok(weft_layout_free(layout));
    return 0;
  });
}

/// Trains from step `from` to `to`; what all parameters are then.
Values trained_in_c(weft_comm_t comm, weft_stream_t stream, int stage,
                    const weft_optimizer_options_t* optimizer, int from, int to,
                    const std::string& folder = {}) {
  weft_layout_t layout = layout_in_c();
  const int units[] = {0, 2};
  weft_zero_options_t options{};
  options.size = sizeof options;
  options.stage = stage;
  options.units = units;
  options.units_count = 2;
  options.bucket_bytes = 8192;
  weft_zero_t zero = nullptr;
  expect_ok(weft_zero_create(comm, layout, &options, &zero));
  EXPECT_EQ(weft_zero_step(zero, stream, 0.1, nullptr), WEFT_USAGE);
  expect_said("no optimizer was set; call weft_zero_set_optimizer()");
  for (int id = 0; id < parameters; ++id) {
    std::vector<float> values(static_cast<std::size_t>(count(id)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = initial(id, static_cast<std::int64_t>(i));
    expect_ok(weft_zero_load(zero, id, values.data(), WEFT_HOST));
  }
  expect_ok(weft_zero_set_optimizer(zero, optimizer));
  weft_checkpointer_options_t saving{};
  saving.size = sizeof saving;
  saving.folder = folder.empty() ? nullptr : folder.c_str();
  saving.run = "a test";
  weft_checkpointer_t checkpointer = nullptr;
  expect_ok(weft_checkpointer_create(comm, &saving, &checkpointer));
  std::int64_t resumed = -1;
  expect_ok(weft_checkpointer_resume_zero(checkpointer, zero, stream, &resumed));
  EXPECT_EQ(resumed, folder.empty() ? 0 : from);
  EXPECT_EQ(weft_zero_units(zero), 2);
  for (int step = from; step < to; ++step) {
    expect_ok(weft_zero_begin_step(zero, WEFT_EXCHANGE_NOW));
    for (const int unit : {1, 0}) {
      expect_ok(weft_zero_gather(zero, unit, stream));
      for (int id = parameters - 1; id >= 0; --id) {
        if (weft_zero_unit_of(zero, id) != unit) continue;
        const auto* const value = static_cast<const float*>(weft_zero_parameter(zero, id));
        auto* const place = static_cast<float*>(weft_zero_gradient(zero, id, stream));
        for (std::int64_t i = 0; i < count(id); ++i)  // which depends on the parameter, too
          place[i] = value[i] * 0.1F + gradient(weft_comm_rank(comm), step, id, i);
        expect_ok(weft_zero_ready(zero, id, stream));
      }
      expect_ok(weft_zero_release(zero, unit));
      EXPECT_EQ(weft_zero_parameter(zero, 0), nullptr);
      expect_said("unit 0, which parameter 0 (p0) is in, is not held; gather it first");
      EXPECT_EQ(weft_zero_release(zero, unit), WEFT_USAGE);
    }
    weft_step_result_t result{};
    result.size = sizeof result;
    expect_ok(weft_zero_step(zero, stream, step % 2 == 0 ? WEFT_OWN_RATE : 0.02, &result));
    EXPECT_EQ(result.skipped, 0);
    int go_on = -1;
    expect_ok(
        weft_checkpointer_after_step_zero(checkpointer, step + 1, step + 1 == to, zero, stream, &go_on));
    EXPECT_EQ(go_on, 1);
  }
  EXPECT_EQ(weft_zero_steps(zero), to);
  EXPECT_EQ(weft_zero_loss_scale(zero), 1.0);
  Values all;
  for (int id = 0; id < parameters; ++id) {
    all.emplace_back(static_cast<std::size_t>(count(id)));
    expect_ok(weft_zero_whole(zero, id, all.back().data()));
  }
  expect_ok(weft_stream_synchronize(stream, 60));
  expect_ok(weft_checkpointer_free(checkpointer));
  expect_ok(weft_zero_free(zero));
  expect_ok(weft_layout_free(layout));
  return all;
}

Values trained_in_cpp(Communicator comm, int stage, const zero::Optimizer& rule) {
  Stream stream;
  zero::ShardedParams params(comm, layout_in_cpp(),
                             {.stage = stage, .bucket_bytes = 8192, .units = {ParamId{0}, ParamId{2}}});
  for (int id = 0; id < parameters; ++id) {
    std::vector<float> values(static_cast<std::size_t>(count(id)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = initial(id, static_cast<std::int64_t>(i));
    params.load(ParamId{id}, ConstView(std::span<const float>(values)));
  }
  zero::ShardedOptimizer optimizer(params, rule, {.clip_norm = 50.0});
  for (int step = 0; step < steps; ++step) {
    params.begin_step();
    for (const int unit : {1, 0}) {
      const zero::Gathered full = params.gather(unit, stream);
      for (int id = parameters - 1; id >= 0; --id) {
        if (params.unit_of(ParamId{id}) != unit) continue;
        const auto value = full[ParamId{id}].as<float>();
        const auto place = params.gradient(ParamId{id}, stream).as<float>();
        for (std::size_t i = 0; i < place.size(); ++i)
          place[i] = value[i] * 0.1F + gradient(comm.rank(), step, id, static_cast<std::int64_t>(i));
        params.mark_ready(ParamId{id}, stream);
      }
    }
    optimizer.step(stream, step % 2 == 0 ? std::nullopt : std::optional(0.02));
  }
  Values all;
  for (int id = 0; id < parameters; ++id) {
    const Buffer whole = params.whole(ParamId{id});
    all.emplace_back(whole.as<float>().begin(), whole.as<float>().end());
  }
  stream.synchronize();
  return all;
}

TEST(TrainingInC, EveryStageAndRuleGivesTheBitsOfCppAndGoesOnFromACheckpoint) {
  const std::map<weft_rule_t, zero::Optimizer> rules = {{WEFT_ADAMW, zero::AdamW{}},
                                                        {WEFT_ADAM, zero::Adam{}},
                                                        {WEFT_SGD, zero::Sgd{}},
                                                        {WEFT_LAMB, zero::Lamb{}},
                                                        {WEFT_LARS, zero::Lars{}}};
  for (const auto& [rule, in_cpp] : rules) {
    for (const int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(text("rule ", rule, ", stage ", stage));
      std::vector<Values> expected(2);
      run_as_threads(2, [&, &twin = in_cpp](Communicator comm) {
        expected[static_cast<std::size_t>(comm.rank())] = trained_in_cpp(comm, stage, twin);
      });
      weft_optimizer_options_t optimizer{};
      optimizer.size = sizeof optimizer;
      expect_ok(weft_optimizer_defaults(rule, &optimizer));
      optimizer.clip_norm = 50;
      const auto all = on_ranks_in_c<Values>(2, [&](weft_comm_t comm, weft_stream_t stream) {
        return trained_in_c(comm, stream, stage, &optimizer, 0, steps);
      });
      EXPECT_EQ(all, expected);
      if (rule != WEFT_ADAMW) continue;
      const TemporaryFolder folder;
      const auto part = [&](int from, int to) {
        return on_ranks_in_c<Values>(2, [&](weft_comm_t comm, weft_stream_t stream) {
          return trained_in_c(comm, stream, stage, &optimizer, from, to, folder.path());
        });
      };
      part(0, 2);
      EXPECT_EQ(part(2, steps), expected);
    }
  }
}

TEST(TrainingInC, ReplicasGoOnFromACheckpointAndAnotherRunIsRefused) {
  const TemporaryFolder folder;
  for (const int turn : {0, 1}) {
    on_ranks_in_c<int>(2, [&](weft_comm_t comm, weft_stream_t) {
      weft_layout_t layout = layout_in_c();
      weft_checkpointer_options_t saving{};
      saving.size = sizeof saving;
      const std::string path = folder.path();
      saving.folder = path.c_str();
      saving.run = "replicas";
      weft_checkpointer_t checkpointer = nullptr;
      expect_ok(weft_checkpointer_create(comm, &saving, &checkpointer));
      Values all;
      std::vector<void*> places;
      for (int id = 0; id < parameters; ++id) {
        all.emplace_back(static_cast<std::size_t>(count(id)));
        places.push_back(all.back().data());
      }
      std::int64_t steps_done = -1;
      expect_ok(weft_checkpointer_resume(checkpointer, layout, places.data(), &steps_done));
      EXPECT_EQ(steps_done, turn == 0 ? 0 : 5);
      for (int id = 0; id < parameters; ++id) {
        for (std::size_t i = 0; i < all[static_cast<std::size_t>(id)].size(); ++i) {
          float& value = all[static_cast<std::size_t>(id)][i];
          EXPECT_EQ(value, turn == 0 ? 0.0F : initial(id, static_cast<std::int64_t>(i)));
          value = initial(id, static_cast<std::int64_t>(i));
        }
      }
      int go_on = -1;
      expect_ok(weft_checkpointer_after_step(checkpointer, 5, 1, layout, places.data(), &go_on));
      EXPECT_EQ(go_on, 1);
      expect_ok(weft_checkpointer_free(checkpointer));
      saving.run = "another";
      expect_ok(weft_checkpointer_create(comm, &saving, &checkpointer));
      EXPECT_EQ(weft_checkpointer_resume(checkpointer, layout, places.data(), &steps_done), WEFT_USAGE);
      expect_said("another");
      expect_ok(weft_checkpointer_free(checkpointer));
      expect_ok(weft_layout_free(layout));
      return 0;
    });
  }
}

TEST(TrainingInC, TheFiguresOfARankAreReadBySample) {
  const SomeOfEach some;
  expect_ok(weft_comm_count_step(some.comm, 0.25));
  std::map<std::string, double> figures;
  const auto keep = [](void* context, const char* name, const char* labels, double value) {
    (*static_cast<std::map<std::string, double>*>(context))[text(name, '{', labels, '}')] = value;
  };
  expect_ok(weft_comm_metrics(some.comm, keep, &figures));
  EXPECT_EQ(figures.at("weft_step_seconds_count{}"), 1);
  EXPECT_EQ(figures.at("weft_step_seconds_sum{}"), 0.25);
  EXPECT_EQ(figures.at("weft_step_seconds_bucket{le=\"+Inf\"}"), 1);
  EXPECT_EQ(weft_comm_metrics(some.comm, nullptr, nullptr), WEFT_USAGE);
  expect_said("`sample` is NULL");
  EXPECT_EQ(weft_comm_count_step(some.comm, -1), WEFT_USAGE);
}

TEST(TrainingInC, WrongLayoutsAndOrdersAreNamed) {
  const SomeOfEach some;
  weft_layout_t layout = layout_in_c();
  const std::int64_t none[] = {3, 0};
  const std::int64_t many[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_EQ(weft_layout_add(layout, nullptr, none, 1, nullptr), -1);
  expect_said("weft_layout_add: `name` is NULL");
  EXPECT_EQ(weft_layout_add(layout, "q", nullptr, 1, nullptr), -1);
  expect_said("`shape` is NULL");
  EXPECT_EQ(weft_layout_add(layout, "q", none, 2, nullptr), -1);
  expect_said("`q` has a dimension of 0 elements");
  EXPECT_EQ(weft_layout_add(layout, "q", many, 2, nullptr), -1);
  EXPECT_EQ(weft_layout_add(layout, "q", none, -1, nullptr), -1);
  EXPECT_EQ(weft_layout_parameters(layout), parameters);
  weft_reducer_options_t options{};
  options.size = sizeof options;
  weft_reducer_t reducer = nullptr;
  const int twice[] = {0, 1, 1, 2};
  options.order = twice;
  options.order_count = 3;
  EXPECT_EQ(weft_reducer_create(some.comm, layout, &options, &reducer), WEFT_USAGE);
  expect_said("`order` has 3 of 4 parameters");
  options.order_count = 4;
  EXPECT_EQ(weft_reducer_create(some.comm, layout, &options, &reducer), WEFT_USAGE);
  expect_said("`order` names parameter 1 (p1) twice");
  options.order = nullptr;
  options.alone_bytes = 1;
  EXPECT_EQ(weft_reducer_create(some.comm, layout, &options, &reducer), WEFT_USAGE);
  expect_said("`alone_bytes` without `bucket_bytes`");
  options.alone_bytes = 0;
  options.hook = "powersdg:4";
  EXPECT_EQ(weft_reducer_create(some.comm, layout, &options, &reducer), WEFT_USAGE);
  expect_said("powersgd");
  options.hook = nullptr;
  options.unused = 9;
  EXPECT_EQ(weft_reducer_create(some.comm, layout, &options, &reducer), WEFT_USAGE);
  expect_said("`unused` is 9, none of weft_unused_t");
  weft_optimizer_options_t optimizer{};
  EXPECT_EQ(weft_optimizer_defaults(WEFT_ADAM, &optimizer), WEFT_USAGE);
  expect_said("whose size is 0 bytes");
  optimizer.size = sizeof optimizer;
  EXPECT_EQ(weft_optimizer_defaults(6, &optimizer), WEFT_USAGE);
  expect_said("`rule` is 6, none of weft_rule_t");
  expect_ok(weft_layout_free(layout));
}

}  // namespace
}  // namespace weft::test
