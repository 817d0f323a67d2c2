// Objects that one thread uses at a time: where two are in one, one of them is told so, and so are the other ranks. Each public
// class is in a list here: watched, or not, and why.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <thread>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/checkpoint/checkpointer.hpp"
#include "weft/checkpoint/saver.hpp"
#include "weft/core/stream_trace.hpp"
#include "weft/embedding/sharded_tables.hpp"
#include "weft/local/local_steps.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/stage_executor.hpp"
#include "weft/pipeline/tied_gradients.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft {
namespace {

/// Where a class is watched: in the test of this name, in a suite of another program, or not, for a reason.
const std::map<std::string, std::string> places = {
    {"Checkpointer", "here"},
    {"GradientReducer", "here"},
    {"GradientScaler", "here"},
    {"LocalSteps", "here"},
    {"Saver", "here"},
    {"ShardedOptimizer", "here"},
    {"ShardedParams", "here"},
    {"ShardedTables", "here"},
    {"StageExecutor", "here"},
    {"StreamTrace", "here"},
    {"TiedGradients", "here"},
    {"DataParallel", "its GradientReducer's turn"},
    {"ZeroOptimizer", "its ShardedParams' turn"},
    {"Gathered", "its ShardedParams' turn; its end never throws"},
    {"Communicator", "its lanes: threads of streams issue, too; ranks that differ in order are a mismatch"},
    {"Group", "a local variable of one call"},
    {"Requests", "its operation on the communicator"},
    {"Work", "any thread waits"},
    {"Stream", "any thread submits"},
    {"Event", "any thread"},
    {"Trace", "any thread"},
    {"FlightRecorder", "any thread"},
    {"Meter", "any thread"},
    {"Metrics", "any thread"},
    {"NodeHeap", "any thread"},
    {"Store", "any thread"},
    {"Rendezvous", "in connect() alone"},
    {"CommHook", "called by a reducer, in its turn"},
    {"AutoHook", "called by a reducer, in its turn"},
    {"PowerSgd", "called by a reducer, in its turn"},
    {"Codec", "without state"},
    {"ErrorFeedback", "called by a hook, in the reducer's turn"},
    {"FlightNote", "called by the recorder"},
    {"Stage", "called by an executor, in its turn"},
    {"Task", "run by its stream"},
    {"FunctionTask", "run by its stream"},
    {"Recycled", "any thread"},
    {"RecycledCount", "within one call"},
    {"RecycledAllocator", "any thread"},
    {"NoSync", "a scope"},
    // Values, which a thread has or copies.
    {"AlgorithmTable", "a value"},
    {"Backoff", "a value"},
    {"BasicView", "a value"},
    {"BucketPlan", "a value"},
    {"Buffer", "a value"},
    {"Checkpoint", "a value"},
    {"ConstView", "a value"},
    {"Deadline", "a value"},
    {"Device", "a value"},
    {"Environment", "a value"},
    {"Error", "a value"},
    {"GradientSpace", "a value"},
    {"LossScaler", "a value"},
    {"MemoryFile", "a value"},
    {"ParamGroups", "a value"},
    {"ParamLayout", "a value"},
    {"SharedMapping", "a value"},
    {"SourceLocation", "a value"},
    {"Topology", "a value"},
    {"View", "a value"},
    {"World", "a value"},
};

TEST(TwoThreads, EachPublicClassIsWatchedOrItIsSaidWhyNot) {
  const std::regex is_class(R"(^class (?:\[\[nodiscard\]\] )?(\w+)(?: final)?(?: :.*)?\s*\{)");
  std::set<std::string> seen;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(WEFT_SOURCE_DIR "/include/weft")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream header(entry.path());
    std::smatch found;
    for (std::string line; std::getline(header, line);) {
      if (!std::regex_search(line, found, is_class)) continue;
      seen.insert(found[1]);
      EXPECT_TRUE(places.contains(found[1])) << found[1] << " of " << entry.path() << " is not in the list";
    }
  }
  for (const auto& [name, place] : places) EXPECT_TRUE(seen.contains(name)) << name << " is no public class";
}

using Call = std::function<void()>;

/// Two threads of rank 1 make the call, in which it waits for rank 0: one is refused, and the other and rank 0 hear of it.
void expect_one_refused(Communicator& comm, const std::string& object, const Call& call) {
  static std::atomic<bool> refused;
  const std::string words = "two threads use one " + object + " at once: thread ";
  if (comm.rank() == 0) refused = false;
  comm.barrier(Stream()).wait();  // nothing of before is under way
  if (comm.rank() == 0) {
    while (!refused) std::this_thread::yield();
    test::expect_error(ErrorKind::usage, {words}, [&] {
      call();  // which may send without waiting
      comm.barrier(Stream()).wait();
    });
    return;
  }
  std::atomic<int> told = 0;
  const auto use = [&] {
    try {
      call();
      ADD_FAILURE() << object << ": no error was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      ++told;
      refused = true;
    }
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_EQ(told, 2);
}

const ParamLayout layout(DataType::f32, {{"a", 1000}, {"b", 600}});

void mark_all(GradientReducer& reducer, const Stream& compute) {
  reducer.begin_step();
  for (const int i : {1, 0}) reducer.mark_ready(ParamId{i}, compute);
}

TEST(TwoThreads, InAReducerAreNamed) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout);
    const Stream compute;
    mark_all(reducer, compute);
    reducer.finish_step(compute);
    expect_one_refused(comm, "GradientReducer", [&] { (void)reducer.account(); });
  });
}

TEST(TwoThreads, InAGradientScalerAreNamed) {
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout, {.means = Means::sharded});
    zero::GradientScaler scaler(comm, reducer, {.clip_norm = 1.0});
    const Stream compute;
    mark_all(reducer, compute);
    reducer.finish_step(compute);
    expect_one_refused(comm, "GradientScaler", [&] { scaler.step(compute); });
  });
}

void fill(zero::ShardedParams& params) {
  const std::vector<float> zeros(1000);
  for (int i = 0; i < 2; ++i)
    params.load(ParamId{i}, ConstView(std::span(zeros)).slice(0, layout.count(ParamId{i})));
}

TEST(TwoThreads, InShardedParamsAreNamed) {
  run_as_threads(2, [](Communicator comm) {
    zero::ShardedParams params(comm, layout, {.stage = 3});
    fill(params);
    expect_one_refused(comm, "ShardedParams", [&] { (void)params.whole(ParamId{0}); });
  });
}

TEST(TwoThreads, InAShardedOptimizerAreNamed) {
  run_as_threads(2, [](Communicator comm) {
    zero::ShardedParams params(comm, layout, {.stage = 1});
    fill(params);
    zero::ShardedOptimizer optimizer(params, zero::Sgd{}, {.clip_norm = 1.0});
    const Stream compute;
    params.gather_all(compute);
    params.begin_step();
    for (const int i : {1, 0}) params.mark_ready(ParamId{i}, compute);
    expect_one_refused(comm, "ShardedParams", [&] { optimizer.step(compute, 0.1); });
  });
}

TEST(TwoThreads, InShardedTablesAreNamed) {
  run_as_threads(2, [](Communicator comm) {
    embedding::ShardedTables tables(comm, {{"table", 10, 4}});
    expect_one_refused(comm, "ShardedTables", [&] { (void)tables.row(0, 9); });
  });
}

TEST(TwoThreads, InLocalStepsAreNamed) {
  run_as_threads(2, [](Communicator comm) {
    std::vector<float> weights(10);
    const ParamLayout one(DataType::f32, {{"weights", 10}});
    LocalSteps local(comm, one, {View(std::span(weights))}, {.every = 1});
    const Stream compute;
    expect_one_refused(comm, "LocalSteps", [&] { local.step(compute); });
  });
}

TEST(TwoThreads, InACheckpointerAreNamed) {
  const test::TemporaryFolder folder;
  run_as_threads(2, [&](Communicator comm) {
    checkpoint::Checkpointer checkpointer(comm, {.folder = folder.path(), .every = 1, .run = "a run"});
    expect_one_refused(comm, "Checkpointer", [&] { (void)checkpointer.newest(); });
  });
}

TEST(TwoThreads, InASaverAreNamed) {
  const test::TemporaryFolder folder;
  run_as_threads(2, [&](Communicator comm) {
    checkpoint::Saver saver(comm, folder.path());
    expect_one_refused(comm, "Saver", [&] { saver.save(1, {}, {}); });
  });
}

/// Both call until one is refused.
void expect_refused_soon(const std::string& object, const Call& call) {
  const std::string words = "two threads use one " + object + " at once: thread ";
  std::atomic<int> told = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto use = [&] {
    while (told == 0 && std::chrono::steady_clock::now() < until) {
      try {
        call();
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
        ++told;
      }
    }
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_GE(told, 1);
}

TEST(TwoThreads, InTiedGradientsAreNamed) {
  pipeline::TiedGradients tied(self(), {0, 0},
                               {{.name = "embedding", .dtype = DataType::f32, .count = 4, .stages = {0, 1}}});
  expect_refused_soon("TiedGradients", [&] { tied.poll(); });
}

TEST(TwoThreads, InAStreamTraceAreNamed) {
  const auto trace = std::make_shared<Trace>();
  const Stream compute;
  StreamTrace spans(trace, compute.device(), "compute");
  expect_refused_soon("StreamTrace", [&] { spans.end(compute); });
}

/// Calls the executor from another thread within its forward.
class Intruded final : public pipeline::Stage {
 public:
  explicit Intruded(std::function<void()> intrude) : intrude_(std::move(intrude)) {}
  pipeline::Boundary input() const override { return {}; }
  pipeline::Boundary output() const override { return {}; }
  void forward(const pipeline::MicrobatchValues&, const Stream&) override { std::thread(intrude_).join(); }
  void backward_input(const pipeline::MicrobatchValues&, const Stream&) override {}
  void backward_weight(const pipeline::MicrobatchValues&, const Stream&) override {}

 private:
  std::function<void()> intrude_;
};

TEST(TwoThreads, InAStageExecutorAreNamed) {
  pipeline::StageExecutor* executor = nullptr;
  const Stream compute;
  int calls = 0;
  Intruded stage([&] {
    test::expect_error(ErrorKind::usage,
                       {"two threads use one StageExecutor at once: thread ", "calls step while thread "},
                       [&] { executor->step(compute); });
    ++calls;
  });
  const pipeline::Problem problem{
      .devices = 1,
      .microbatches = 1,
      .costs = pipeline::uniform_costs(1, 1, {.forward = 1, .backward_input = 1, .backward_weight = 1}),
      .memory_limit = {}};
  pipeline::StageExecutor made(self(), pipeline::gpipe(problem), {&stage});
  executor = &made;
  try {
    made.step(compute);
  } catch (const Error&) {  // it hears of the misuse, too
  }
  EXPECT_EQ(calls, 1);
}

/// A parameter belongs to one: a second one is refused on every rank, and works once the first has ended.
TEST(Claims, ASecondReducerOverAParameterIsRefusedByName) {
  run_as_threads(2, [](Communicator comm) {
    std::vector<float> a(8), b(8), c(8);
    const ParamLayout first(DataType::f32, {{"a", 8, a.data()}, {"b", 8, b.data()}});
    const ParamLayout second(DataType::f32, {{"other.b", 8, b.data()}, {"c", 8, c.data()}});
    const ParamLayout third(DataType::f32, {{"a", 8, c.data()}, {"b", 8}});
    {
      const GradientReducer reducer(comm, first);
      const GradientReducer beside(comm, third);  // the same names, other parameters
      const Communicator own = *comm.split(0, comm.rank());
      test::expect_error(ErrorKind::usage,
                         {"parameter other.b belongs to another GradientReducer of this process", "rank "},
                         [&] { const GradientReducer over(own, second); });
      const Communicator another = *comm.split(0, comm.rank());
      test::expect_error(ErrorKind::usage, {"parameter b belongs to a GradientReducer of this process"}, [&] {
        const zero::ShardedParams params(another, first, {.stage = 1, .frozen = {ParamId{0}}});
      });
    }
    const GradientReducer after(comm, second);
  });
}

/// All that exchanges gradients of a layout whose storages it knows. Those of weft::torch are in tests/torch/libtorch/uses_test.cpp.
struct Exchange {
  const char* name;
  int stage;
};
constexpr std::array<Exchange, 5> exchanges = {{{"GradientReducer", -1},
                                                {"ShardedParams", 0},
                                                {"ShardedParams", 1},
                                                {"ShardedParams", 2},
                                                {"ShardedParams", 3}}};

std::shared_ptr<void> make(const Exchange& one, const Communicator& comm, const ParamLayout& parameters) {
  if (one.stage < 0) return std::make_shared<GradientReducer>(comm, parameters);
  return std::make_shared<zero::ShardedParams>(comm, parameters, zero::ShardedOptions{.stage = one.stage});
}

TEST(Claims, EachPairOfExchangesOverAParameterIsRefusedInEitherOrder) {
  run_as_threads(2, [](const Communicator& comm) {
    std::vector<float> a(8), b(8);
    const ParamLayout first(DataType::f32, {{"a", 8, a.data()}, {"b", 8, b.data()}});
    const ParamLayout second(DataType::f32, {{"again", 8, b.data()}});
    for (const Exchange& one : exchanges) {
      for (const Exchange& other : exchanges) {
        SCOPED_TRACE(text(one.name, " ", one.stage, ", then ", other.name, " ", other.stage));
        const Communicator own = *Communicator(comm).split(0, comm.rank());
        const Communicator broken = *Communicator(comm).split(0, comm.rank());
        {
          const auto there = make(one, own, first);
          test::expect_error(
              ErrorKind::usage,
              {text(other.name, ": parameter again belongs to "), text(one.name, " of this process")},
              [&] { make(other, broken, second); });
        }
        make(other, own, second);
      }
    }
  });
}

TEST(Claims, ASecondOptimizerOrScalerIsRefused) {
  run_as_threads(2, [](Communicator comm) {
    zero::ShardedParams params(comm, layout, {.stage = 1});
    fill(params);
    { const zero::ShardedOptimizer ends(params, zero::Sgd{}); }
    const zero::ShardedOptimizer first(params, zero::Sgd{});
    test::expect_error(ErrorKind::usage, {"another ShardedOptimizer, which still lives", "rank "},
                       [&] { const zero::ShardedOptimizer second(params, zero::Sgd{}); });
  });
  run_as_threads(2, [](Communicator comm) {
    GradientReducer reducer(comm, layout);
    const zero::GradientScaler first(comm, reducer, {});
    test::expect_error(ErrorKind::usage, {"another GradientScaler, which still lives", "rank "},
                       [&] { const zero::GradientScaler second(comm, reducer, {}); });
  });
}

}  // namespace
}  // namespace weft
