// Executed schedules give the same numbers as the model by hand: for every kind of schedule, stream and
// placement.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "support/expect_error.hpp"
#include "support/fake_cuda.hpp"
#include "support/ranks_with_fakes.hpp"
#include "unit/pipeline/execution/toy_model.hpp"
#include "unit/pipeline/model/drawn_schedules.hpp"
#include "weft/core/log.hpp"
#include "weft/pipeline/passes.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/stage_executor.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using namespace pipeline;
using test::Case;
using test::expect_error;
using test::ToyGradient;
using test::ToySizes;
using test::ToyStage;

struct Trained {
  std::mutex mutex;
  std::map<int, ToyGradient> gradients;
  std::int64_t held = 0;
};

/// This rank's stages for some steps. @param stream makes the compute stream
void train(const Communicator& comm, const Schedule& schedule, const ToySizes& sizes, Trained& trained,
           const Stream& compute, int steps = 1) {
  std::vector<std::unique_ptr<ToyStage>> mine;
  std::vector<Stage*> stages;
  const std::vector<int> numbers = schedule.stages_of(comm.rank());
  for (const int stage : numbers) {
    mine.push_back(std::make_unique<ToyStage>(schedule, stage, sizes));
    stages.push_back(mine.back().get());
  }
  StageExecutor executor(comm, schedule, stages, {.sizes_travel = sizes.differ});
  for (int step = 0; step < steps; ++step) executor.step(compute);
  Stream(compute).synchronize();
  const std::lock_guard lock(trained.mutex);
  for (std::size_t i = 0; i < mine.size(); ++i) trained.gradients[numbers[i]] = mine[i]->gradient;
  trained.held += executor.held_bytes();
}

void expect_by_hand(const Trained& trained, const Schedule& schedule, const ToySizes& sizes, int steps = 1) {
  const auto expected = test::toy_gradients(schedule.stages(), schedule.microbatches, sizes);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const ToyGradient& one = expected[static_cast<std::size_t>(stage)];
    const ToyGradient wanted{one.scale * steps, one.shift * steps};
    EXPECT_EQ(trained.gradients.at(stage), wanted) << "stage " << stage;
  }
}

void expect_executes(const Schedule& schedule, const ToySizes& sizes = {}, int steps = 1) {
  Trained trained;
  run_as_threads(schedule.devices(),
                 [&](Communicator comm) { train(comm, schedule, sizes, trained, Stream(), steps); });
  expect_by_hand(trained, schedule, sizes, steps);
}

Problem alike(int devices, int microbatches, int chunks) {
  return {
      .devices = devices,
      .microbatches = microbatches,
      .costs = uniform_costs(devices, chunks, {.forward = 12, .backward_input = 12, .backward_weight = 12}),
      .memory_limit = {}};
}

TEST(StageExecutor, GivesTheSameGradientsInEveryNamedSchedule) {
  for (const NamedSchedule& named : named_schedules()) {
    for (const int chunks : {1, 2}) {
      const Problem problem = alike(3, 7, chunks);
      if (!named.suits(problem)) continue;
      SCOPED_TRACE(text(named.name, " with ", chunks, " chunks"));
      expect_executes(named.make(problem), {}, 2);
    }
  }
}

TEST(StageExecutor, CarriesOutWhateverVerifyTakes) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    test::Draw draw(seed);
    const Case one = test::draw_valid(draw);
    SCOPED_TRACE(text("seed ", seed, '\n', one.described()));
    expect_executes(one.schedule, {.most = 6, .differ = seed % 2 == 0});
  }
}

TEST(StageExecutor, LetsMicrobatchesDifferInSize) {
  expect_executes(zb_h1(alike(3, 8, 1)), {.most = 9, .differ = true}, 2);
  expect_executes(zb_v(alike(2, 5, 2)), {.most = 9, .differ = true});
}

TEST(StageExecutor, OfOneDeviceSendsNothing) {
  const Schedule schedule = interleaved_one_f_one_b(alike(1, 4, 3));
  expect_executes(schedule);
}

TEST(StageExecutor, OverlapsOnQueuedStreams) {
  const Schedule schedule = with_communication(zb_h2(alike(3, 8, 1)), {.ahead = 3});
  Trained trained;
  run_as_threads(3, [&](Communicator comm) { train(comm, schedule, {}, trained, Stream::queued(), 3); });
  expect_by_hand(trained, schedule, {}, 3);
}

TEST(StageExecutor, WorksOnDevices) {
  const test::WithFakeCuda cuda;
  test::FakeNcclRanks nccl;
  const Schedule schedule = zb_v(alike(2, 6, 2));
  Trained trained;
  test::run_with_fakes(
      nccl, 2, [&](Communicator comm) { train(comm, schedule, {}, trained, Stream(comm.device()), 2); });
  expect_by_hand(trained, schedule, {}, 2);
}

// NCCL connects two ranks at their first message, in the call, and here each rank posts receives ahead of the sends that they wait for.
TEST(StageExecutor, ConnectsDevicesBeforeTheFirstStep) {
  const test::WithFakeCuda cuda;
  test::FakeNcclRanks nccl;
  for (const Schedule& schedule : {one_f_one_b(alike(3, 6, 1)), gpipe(alike(2, 4, 1))}) {
    Trained trained;
    test::run_with_fakes(
        nccl, schedule.devices(),
        [&](Communicator comm) { train(comm, schedule, {}, trained, Stream(comm.device()), 2); }, 10s);
    expect_by_hand(trained, schedule, {}, 2);
  }
}

TEST(StageExecutor, HoldsValuesOnlyAsLongAsTheyAreNeeded) {
  // A value of 1024 f64 is 8 KiB. 1F1B: device d has p - d inputs at once and one gradient, and sends from
  // one buffer that is read until the neighbour's answer.
  const ToySizes sizes{.most = 1024};
  const auto held = [&](const Schedule& schedule) {
    Trained trained;
    run_as_threads(4, [&](Communicator comm) { train(comm, schedule, sizes, trained, Stream()); });
    return trained.held / 8192;
  };
  const std::int64_t few = held(one_f_one_b(alike(4, 8, 1)));
  EXPECT_EQ(held(one_f_one_b(alike(4, 32, 1))), few) << "more microbatches need no more memory";
  EXPECT_GE(held(gpipe(alike(4, 32, 1))), 3 * 32) << "here all of them are held";
}

TEST(StageExecutor, TracesWhatItDoesBesideWhatWasPredicted) {
  const Problem problem = alike(2, 3, 1);
  const Schedule schedule = one_f_one_b(problem);
  const auto trace = std::make_shared<Trace>(1);
  run_as_threads(2, [&](Communicator comm) {
    ToyStage mine(schedule, comm.rank(), {});
    ExecutorOptions options{.keep_times = true, .trace = {}, .costs = {}};
    if (comm.rank() == 1) options.trace = trace;
    if (comm.rank() == 1) options.costs = problem;
    StageExecutor executor(comm, schedule, {&mine}, options);
    executor.step(Stream());
    const Execution& times = executor.execution();
    const auto& row = executor.schedule().rows[static_cast<std::size_t>(comm.rank())];
    ASSERT_EQ(times.begins.size(), row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      EXPECT_LE(times.begins[i], times.ends[i]);
      EXPECT_TRUE(i == 0 || times.ends[i - 1] <= times.begins[i]);
    }
  });
  const std::string json = trace->json();
  for (const char* part : {"pipeline", "predicted", "1F2", "1B0", "1WAIT_RECV_F1"})
    EXPECT_NE(json.find(part), std::string::npos) << part;
  // Six computations twice, and the waits for three values and three sends.
  EXPECT_EQ(trace->size(), 18U);
}

TEST(StageExecutor, WaitsForWhatStagesLeaveToAnInlineStream) {
  // Each device awaits a sum over both by its stream alone. The last device gets there long before it has
  // sent what the other needs to get there.
  class Summing final : public ToyStage {
   public:
    Summing(Communicator comm, const Schedule& schedule)
        : ToyStage(schedule, comm.rank(), {}), comm_(std::move(comm)), value_(1, comm_.rank() + 1) {}
    void reduce_gradients(const Stream& compute) override {
      ToyStage::reduce_gradients(compute);
      comm_.all_reduce(View(std::span(value_)), ReduceOp::sum, wire_);
    }
    void await_reduce_gradients(const Stream& compute) override { Stream(compute).wait(wire_.record()); }
    double sum() const { return value_[0]; }

   private:
    Communicator comm_;
    Stream wire_;
    std::vector<double> value_;
  };
  const Schedule schedule = with_reductions(one_f_one_b(alike(2, 6, 1)));
  run_as_threads(2, [&](Communicator comm) {
    Summing mine(comm, schedule);
    Stream compute;
    StageExecutor(comm, schedule, {&mine}).step(compute);
    EXPECT_TRUE(compute.record().done());
    EXPECT_EQ(mine.sum(), 3);
    EXPECT_EQ(mine.reductions, 1);
  });
}

TEST(StageExecutor, CarriesMessagesOnWhileAStageIsHeldUp) {
  // Two pipelines: in its last forward, the first stage of each waits for the last stage of the other. That
  // one gets there only if messages that were posted before move meanwhile.
  class BarrierStage final : public ToyStage {
   public:
    BarrierStage(Communicator others, const Schedule& schedule, int stage, int microbatch)
        : ToyStage(schedule, stage, {}), others_(std::move(others)), microbatch_(microbatch) {}
    bool waits_for_others() const override { return true; }
    void forward(const MicrobatchValues& of, const Stream& compute) override {
      Stream wire;
      if (of.microbatch == microbatch_) others_.barrier(wire).wait();
      ToyStage::forward(of, compute);
    }

   private:
    Communicator others_;
    int microbatch_;
  };
  const Schedule schedule = gpipe(alike(2, 6, 1));
  run_as_threads(4, [&](Communicator all) {
    const int device = all.rank() / 2;
    Communicator pipeline = *all.split(all.rank() % 2, all.rank());
    // The first device of one pipeline and the last of the other.
    Communicator others = *all.split((all.rank() + device) % 2, all.rank());
    BarrierStage mine(others, schedule, device, device == 0 ? 5 : 4);
    StageExecutor(pipeline, schedule, {&mine}).step(Stream());
  });
}

TEST(StageExecutor, RefusesOnAllRanksWhatDoesNotFit) {
  const Schedule schedule = one_f_one_b(alike(2, 4, 1));
  expect_error(ErrorKind::mismatch, {"do not go together", "rank 0 has 1f1b", "rank 1 has gpipe"}, [&] {
    run_as_threads(2, [&](Communicator comm) {
      Trained trained;
      train(comm, comm.rank() == 0 ? schedule : gpipe(alike(2, 4, 1)), {}, trained, Stream());
    });
  });
  expect_error(ErrorKind::mismatch, {"stage 0", "6 f64", "stage 1", "7 f64"}, [&] {
    run_as_threads(2, [&](Communicator comm) {
      Trained trained;
      train(comm, schedule, {.most = 6 + comm.rank()}, trained, Stream());
    });
  });
  expect_error(ErrorKind::usage, {"2 devices for 3 ranks"}, [&] {
    run_as_threads(3, [&](Communicator comm) { const StageExecutor executor(comm, schedule, {}); });
  });
  expect_error(ErrorKind::usage, {"0 stages given", "has 1 on device 0"}, [&] {
    run_as_threads(2, [&](Communicator comm) { const StageExecutor executor(comm, schedule, {}); });
  });
  Schedule broken = schedule;
  std::swap(broken.rows[1][0], broken.rows[1][1]);
  expect_error(ErrorKind::usage, {"device 1, entry 0"}, [&] { expect_executes(broken); });
}

TEST(StageExecutor, SaysWhatAStageCannotDo) {
  class Plain final : public Stage {
   public:
    explicit Plain(int stage) : stage_(stage) {}
    Boundary input() const override { return {DataType::f32, stage_ == 0 ? 0 : 4}; }
    Boundary output() const override { return {DataType::f32, 0}; }
    void forward(const MicrobatchValues&, const Stream&) override {}
    void backward_input(const MicrobatchValues&, const Stream&) override {}
    void backward_weight(const MicrobatchValues&, const Stream&) override {}

   private:
    int stage_;
  };
  // One rank alone: of two, each may hear of the other's refusal before its own.
  const Schedule schedule = with_reductions(one_f_one_b(alike(1, 2, 1)));
  expect_error(ErrorKind::usage, {"device 0 at 0REDUCE_GRAD (stage 0)", "override Stage::reduce_gradients"},
               [&] {
                 run_as_threads(1, [&](Communicator comm) {
                   Plain mine(comm.rank());
                   StageExecutor(comm, schedule, {&mine}).step(Stream());
                 });
               });
}

/// A stage that calls a function in one of its forwards.
class TroubledStage final : public ToyStage {
 public:
  TroubledStage(const Schedule& schedule, int stage, int microbatch, std::function<void()> trouble)
      : ToyStage(schedule, stage, {}), microbatch_(microbatch), trouble_(std::move(trouble)) {}
  void forward(const MicrobatchValues& of, const Stream& compute) override {
    if (of.microbatch == microbatch_) trouble_();
    ToyStage::forward(of, compute);
  }

 private:
  int microbatch_;
  std::function<void()> trouble_;
};

/// Four devices; stage 1 runs `trouble` at microbatch 5. @param trouble gets the number of other ranks that
/// have ended @returns the error of each rank
std::vector<std::string> told_of_trouble(const std::function<void(std::atomic<int>& ended)>& trouble,
                                         std::chrono::nanoseconds timeout,
                                         std::chrono::nanoseconds slow_after = 1min) {
  const Schedule schedule = one_f_one_b(alike(4, 8, 1));
  std::vector<std::string> told(4);
  std::atomic<int> ended = 0;
  run_as_threads(4,
                 [&](Communicator comm) {
                   std::string& mine = told[static_cast<std::size_t>(comm.rank())];
                   TroubledStage stage(schedule, comm.rank(), comm.rank() == 1 ? 5 : -1,
                                       [&] { trouble(ended); });
                   try {
                     StageExecutor executor(comm, schedule, {&stage}, {.slow_after = slow_after});
                     executor.step(Stream());
                   } catch (const std::exception& error) {
                     mine = error.what();
                   } catch (int number) {
                     mine = std::to_string(number);
                   }
                   ++ended;
                 },
                 {.timeout = timeout});
  return told;
}

TEST(StageExecutor, TellsEveryDeviceWhichStageFailed) {
  const auto told = told_of_trouble([](auto&) { throw std::runtime_error("out of paper"); }, 60s);
  EXPECT_EQ(told[1], "out of paper");
  for (const std::size_t rank : {0, 2, 3}) {
    EXPECT_NE(told[rank].find("device 1 at 1F5 (stage 1, microbatch 5): out of paper"), std::string::npos)
        << told[rank];
  }
  const auto strange = told_of_trouble([](auto&) { throw 42; }, 60s);  // NOLINT: users may throw anything
  EXPECT_NE(strange[3].find("device 1 at 1F5 (stage 1, microbatch 5): a stage threw something"),
            std::string::npos)
      << strange[3];
}

TEST(StageExecutor, NamesTheStageThatHangs) {
  std::mutex mutex;
  std::vector<std::string> lines;
  weft::log::set_sink([&](weft::log::Level, std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  });
  const auto told = told_of_trouble(
      [](std::atomic<int>& ended) {
        for (int i = 0; i < 6000 && ended < 3; ++i) std::this_thread::sleep_for(10ms);
      },
      6s, 500ms);
  weft::log::set_sink({});
  int named = 0;
  for (const std::string& line : lines) {
    const bool ours = line.find("of the pipeline has waited") != std::string::npos;
    named += ours && line.find("device 1 is at 1F5 (stage 1, microbatch 5)") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(named, 3) << "devices 0, 2 and 3 wait, some for each other";
  for (const std::size_t rank : {0, 2, 3}) {
    EXPECT_NE(told[rank].find("device 1 is at 1F5 (stage 1, microbatch 5)"), std::string::npos) << told[rank];
  }
  EXPECT_NE(told[1], "") << "nobody takes what it sends";
}

}  // namespace
}  // namespace weft
