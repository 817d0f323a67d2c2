// State of ZeRO in checkpoints: any stage and number of ranks loads what any other saved.

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/same_everywhere.hpp"
#include "support/temporary_folder.hpp"
#include "weft/checkpoint/checkpoint.hpp"
#include "weft/checkpoint/saver.hpp"
#include "zero/plan/step_factors.hpp"

namespace weft::zero {
namespace {

using checkpoint::Checkpoint;
using test::ZeroTraining;

void save_at_end(ZeroTraining& training, const std::string& folder) {
  training.at_end = [folder, step = training.steps](const Communicator& comm, ShardedParams&,
                                                    ShardedOptimizer& adam, const Stream& compute) {
    const checkpoint::State state = adam.state(compute);
    checkpoint::Saver(comm, folder).save(step, state.pieces, state.values);
  };
}

/// Goes on from a checkpoint, for so many steps.
ZeroTraining resumed(ZeroTraining training, const std::string& folder, int more) {
  training.first_step = training.steps;
  training.steps += more;
  training.at_end = {};
  training.at_start = [folder](const Communicator&, ShardedParams&, ShardedOptimizer& adam,
                               const Stream& compute) {
    adam.load_state(*Checkpoint::newest(folder), compute);
  };
  return training;
}

/// What is saved again right after it was loaded differs nowhere.
void expect_loads_as_saved(const ZeroTraining& training, const std::string& folder) {
  const test::TemporaryFolder again;
  ZeroTraining loaded = resumed(training, folder, 0);
  save_at_end(loaded, again.path());
  loaded.run();
  for (const auto& one : Checkpoint::newest(folder)->differences(*Checkpoint::newest(again.path())))
    ADD_FAILURE() << one.name << ": " << one.what;
}

std::vector<std::byte> bytes_of(const checkpoint::State& state) {
  std::vector<std::byte> all;
  for (const checkpoint::Piece& piece : state.pieces) {
    if (const ConstView* const values = std::get_if<ConstView>(&piece.values)) {
      const auto* const begin = static_cast<const std::byte*>(values->data());
      all.insert(all.end(), begin, begin + values->size_bytes());
    }
  }
  return all;
}

/// Each rank begins a save before the first step, and waits for it after the last one. Parameters and state are given back unchanged.
void save_behind(ZeroTraining& training, const std::string& folder) {
  struct OfRank {
    std::optional<checkpoint::Saver> saver;
    bool given_back = false;
  };
  const auto ranks = std::make_shared<std::vector<OfRank>>(static_cast<std::size_t>(training.ranks));
  training.at_start = [=, before = training.at_start, step = training.first_step](
                          const Communicator& comm, ShardedParams& params, ShardedOptimizer& adam,
                          const Stream& compute) {
    before(comm, params, adam, compute);
    OfRank& mine = (*ranks)[static_cast<std::size_t>(comm.rank())];
    const checkpoint::State state = adam.state(compute);
    mine.saver.emplace(comm, folder);
    mine.saver->begin(step, state);
    if (!state.before_change) return;  // another rank saves what this one has, too
    *state.before_change = [&mine, state, bytes = bytes_of(state), release = *state.before_change] {
      EXPECT_TRUE(bytes_of(state) == bytes);
      mine.given_back = true;
      release();
    };
  };
  training.at_end = [=](const Communicator& comm, ShardedParams&, ShardedOptimizer& adam,
                        const Stream& compute) {
    OfRank& mine = (*ranks)[static_cast<std::size_t>(comm.rank())];
    EXPECT_EQ(mine.given_back, adam.state(compute).before_change != nullptr);
    mine.saver->finish();
    mine.saver.reset();
  };
}

double relative_error(const std::vector<float>& values, const std::vector<float>& reference) {
  double apart = 0;
  double all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    apart += std::pow(static_cast<double>(values[i]) - reference[i], 2);
    all += std::pow(static_cast<double>(reference[i]), 2);
  }
  return std::sqrt(apart / all);
}

// 256 pairs; under sanitizers, which are slow, a sixteenth of them.
TEST(ZeroSaving, AnyStageAndNumberOfRanksGoesOnFromAnyOther) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int stride = 16;
#else
  constexpr int stride = 1;
#endif
  int pair = 3;
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int stage : {0, 1, 2, 3}) {
      const test::TemporaryFolder folder;
      ZeroTraining saved{.ranks = ranks, .steps = 3, .sharding = {.stage = stage}, .coarse = true};
      saved.parts = 8;
      save_at_end(saved, folder.path());
      saved.run();
      for (const int other : {1, 2, 4, 8}) {
        for (const int other_stage : {0, 1, 2, 3}) {
          if (pair++ % stride != 0) continue;
          SCOPED_TRACE(
              text("stage ", stage, " on ", ranks, " ranks, loaded in stage ", other_stage, " on ", other));
          ZeroTraining loading = saved;
          loading.ranks = other;
          loading.sharding.stage = other_stage;
          expect_loads_as_saved(loading, folder.path());
          const ZeroTraining on = resumed(loading, folder.path(), 4);
          ZeroTraining undisturbed = on;
          undisturbed.first_step = 0;
          undisturbed.at_start = {};
          EXPECT_EQ(on.run(), undisturbed.run());  // parts are fixed: bitwise on any number of ranks
        }
      }
    }
  }
}

TEST(ZeroSaving, AnotherNumberOfRanksStaysNearARunThatHadItFromTheStart) {
  for (const auto& [ranks, other] : {std::pair{4, 2}, std::pair{1, 8}, std::pair{8, 1}}) {
    const test::TemporaryFolder folder;
    ZeroTraining saved{.ranks = ranks,
                       .steps = 3,
                       .optimizer = Sgd{.learning_rate = 0.05, .momentum = 0.9},
                       .sharding = {.stage = 2}};
    saved.parts = 8;
    save_at_end(saved, folder.path());
    saved.run();
    ZeroTraining loading = saved;
    loading.ranks = other;
    loading.sharding.stage = 1;
    const ZeroTraining on = resumed(loading, folder.path(), 20);
    ZeroTraining undisturbed = on;
    undisturbed.first_step = 0;
    undisturbed.at_start = {};
    EXPECT_LE(relative_error(on.run().parameters, undisturbed.run().parameters), 1e-6);
  }
}

/// A model in parts: each part's ranks train their own parameters, and all ranks save together.
/// @param cuts where parts begin, but the first. @param with sets up the training of a rank
void train_in_parts(const std::vector<int>& cuts, int ranks, const ZeroTraining& training,
                    const std::function<void(ZeroTraining& one, const Communicator& all)>& with) {
  const int parts = static_cast<int>(cuts.size()) + 1;
  run_as_threads(parts * ranks, [&](Communicator all) {
    const auto part = static_cast<std::size_t>(all.rank() / ranks);
    ZeroTraining one = training;
    one.ranks = ranks;
    const int begin = part == 0 ? 0 : cuts[part - 1];
    const int end = part == cuts.size() ? ZeroTraining::parameters : cuts[part];
    for (int i = begin; i < end; ++i) one.part.push_back(i);
    Communicator mine = *all.split(static_cast<int>(part), all.rank());
    with(one, all);
    one.on(mine);
  });
}

void save_all_at_end(ZeroTraining& one, const Communicator& all, const std::string& folder) {
  one.at_end = [all, folder, step = one.steps](const Communicator&, ShardedParams&, ShardedOptimizer& adam,
                                               const Stream& compute) {
    const checkpoint::State state = adam.state(compute);
    checkpoint::Saver(all, folder).save(step, state.pieces, state.values);
  };
}

TEST(ZeroSaving, AnyCutOfAPipelineGoesOnFromAnyOther) {
  const std::vector<std::vector<int>> cuts{{}, {4}, {2, 7}, {3, 6, 9}, {11}};
  const ZeroTraining training{.ranks = 2, .steps = 3, .sharding = {.stage = 2}};
  const test::TemporaryFolder undisturbed;
  ZeroTraining whole = training;
  whole.steps += 3;
  save_at_end(whole, undisturbed.path());
  whole.run();
  for (const auto& saved : cuts) {
    const test::TemporaryFolder folder;
    train_in_parts(saved, 2, training, [&](ZeroTraining& one, const Communicator& all) {
      save_all_at_end(one, all, folder.path());
    });
    for (const auto& loaded : cuts) {
      if (loaded == saved) continue;
      const test::TemporaryFolder after;
      train_in_parts(loaded, 2, training, [&](ZeroTraining& one, const Communicator& all) {
        one = resumed(one, folder.path(), 3);
        one.sharding.stage = 1;
        save_all_at_end(one, all, after.path());
      });
      for (const auto& one :
           Checkpoint::newest(undisturbed.path())->differences(*Checkpoint::newest(after.path())))
        ADD_FAILURE() << saved.size() + 1 << " parts loaded as " << loaded.size() + 1 << ": " << one.name
                      << ": " << one.what;
    }
  }
}

struct Kind {
  const char* name;
  ZeroTraining saved;
  ZeroTraining loaded;
};

// Each with the same number of ranks: what follows is bitwise what an undisturbed training does.
TEST(ZeroSaving, EveryKindOfStateGoesOnBitwise) {
  const test::TemporaryFolder disk;
  const auto with = [](ShardedOptions sharding, ShardedOptimizerOptions stepping = {},
                       DataType dtype = DataType::f32, Optimizer rule = AdamW{.learning_rate = 1e-2}) {
    return ZeroTraining{.ranks = 4,
                        .steps = 5,
                        .dtype = dtype,
                        .optimizer = rule,
                        .stepping = std::move(stepping),
                        .sharding = std::move(sharding)};
  };
  const auto bf16 = DataType::bf16;
  const Offload half{.share = 0.5};
  const Offload filed{.share = 0.7, .tile_bytes = 1024, .directory = disk.path(), .file_share = 0.5};
  const LossScalerOptions scaling{.initial = 1024, .growth_interval = 3};
  std::vector<Kind> kinds{
      {"f32 masters to f32 masters", with({.stage = 2}, {}, bf16), with({.stage = 3}, {}, bf16)},
      {"split masters to split masters", with({.stage = 1}, {.master = Master::split}, bf16),
       with({.stage = 3}, {.master = Master::split}, bf16)},
      {"f32 masters to split masters", with({.stage = 2}, {}, bf16),
       with({.stage = 2}, {.master = Master::split}, bf16)},
      {"host to device", with({.stage = 2}, {.offload = half}, bf16), with({.stage = 2}, {}, bf16)},
      {"device to file", with({.stage = 1}), with({.stage = 3}, {.offload = filed})},
      {"file to host, split", with({.stage = 2}, {.master = Master::split, .offload = filed}, bf16),
       with({.stage = 0}, {.master = Master::split, .offload = half}, bf16)},
      {"Adam in f64", with({.stage = 2}, {}, DataType::f64, Adam{}),
       with({.stage = 1}, {}, DataType::f64, Adam{})},
      {"SGD without state", with({.stage = 3}, {}, DataType::f32, Sgd{.learning_rate = 0.1}),
       with({.stage = 0}, {}, DataType::f32, Sgd{.learning_rate = 0.1})},
      {"LAMB", with({.stage = 2}, {}, bf16, Lamb{}), with({.stage = 1}, {}, bf16, Lamb{})},
      {"Muon", with({.stage = 1}, {}, bf16, Muon{}), with({.stage = 3}, {}, bf16, Muon{})},
      {"LARS", with({.stage = 0}, {}, DataType::f32, Lars{}), with({.stage = 3}, {}, DataType::f32, Lars{})},
      {"hybrid to plain", with({.stage = 3, .shard_ranks = 2}), with({.stage = 3, .whole_below = 300})},
      {"a loss scale", with({.stage = 2}, {.loss_scale = scaling}, bf16),
       with({.stage = 1}, {.loss_scale = scaling}, bf16)},
      {"frozen parameters", with({.stage = 2, .frozen = {ParamId{0}, ParamId{5}}}),
       with({.stage = 3, .frozen = {ParamId{0}, ParamId{5}}})}};
  for (Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    if (std::holds_alternative<Muon>(kind.saved.optimizer) && test::why_no_blas()) continue;
    if (detail::needs_whole_tensors(kind.saved.optimizer))
      kind.saved.has_matrices = kind.loaded.has_matrices = true;
    const test::TemporaryFolder folder;
    if (kind.saved.sharding.shard_ranks > 0)
      kind.saved.coarse = kind.loaded.coarse = true;  // sums have another order
    if (kind.saved.stepping.loss_scale) kind.saved.overflow_once_in = kind.loaded.overflow_once_in = 3;
    save_at_end(kind.saved, folder.path());
    kind.saved.run();
    expect_loads_as_saved(kind.loaded, folder.path());
    // While it goes on, what it began from is saved again behind it.
    ZeroTraining resuming = resumed(kind.loaded, folder.path(), 6);
    const test::TemporaryFolder behind;
    save_behind(resuming, behind.path());
    const auto on = resuming.run();
    for (const auto& one : Checkpoint::newest(folder.path())->differences(*Checkpoint::newest(behind.path())))
      ADD_FAILURE() << "saved behind: " << one.name << ": " << one.what;
    ZeroTraining undisturbed = kind.loaded;
    undisturbed.steps += 6;
    const auto whole = undisturbed.run();
    EXPECT_EQ(on.parameters, whole.parameters);
    EXPECT_EQ(on.loss_scale, whole.loss_scale);
  }
}

TEST(ZeroSaving, RefusesWhatDoesNotFit) {
  const test::TemporaryFolder folder;
  ZeroTraining saved{.ranks = 2, .steps = 2};
  save_at_end(saved, folder.path());
  saved.run();
  const auto refuses = [&](ErrorKind kind, std::initializer_list<std::string> words, ZeroTraining loading) {
    loading.ranks = 2;
    loading.steps = 2;
    test::expect_error(kind, words, [&] { resumed(loading, folder.path(), 1).run(); });
  };
  refuses(ErrorKind::mismatch, {"parameter", "is f32[", "bf16["}, {.dtype = DataType::bf16});
  refuses(ErrorKind::mismatch, {"no tensor parameter", "/momentum_buffer"},
          {.optimizer = Sgd{.momentum = 0.9}});
  refuses(ErrorKind::mismatch, {"tensor parameter", "build the model"}, {.has_matrices = true});
  run_as_threads(1, [&](Communicator comm) {
    ShardedParams params(comm, ParamLayout(DataType::f32, {{"w", 100}}), {.stage = 1});
    ShardedOptimizer adam(params, AdamW{});
    const Stream compute;
    test::expect_error(ErrorKind::usage, {"no value \"optimizer/steps\""}, [&] {
      adam.load_state(
          {}, [](auto) {}, compute);
    });
    test::expect_error(ErrorKind::usage, {"after -1 steps"}, [&] {
      adam.load_state(
          {{"optimizer/steps", std::int64_t{-1}}}, [](auto) {}, compute);
    });
    params.begin_step();
    adam.begin_step(0.1);
    test::expect_error(ErrorKind::usage, {"state within a step", "call step() first"},
                       [&] { (void)adam.state(compute); });
  });
  run_as_threads(2, [&](Communicator comm) {
    ShardedParams params(comm, ParamLayout(DataType::f32, {{"w", 100}}), {.stage = 1});
    ShardedOptimizer adam(params, AdamW{});
    test::expect_error(ErrorKind::mismatch,
                       {"ranks load different checkpoints", "after 0 steps", "after 1 steps"}, [&] {
                         adam.load_state(
                             {{"optimizer/steps", std::int64_t{comm.rank()}}}, [](auto) {}, Stream());
                       });
  });
}

}  // namespace
}  // namespace weft::zero
