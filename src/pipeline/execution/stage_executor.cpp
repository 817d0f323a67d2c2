// How an executor is made: all devices compare schedules, verify, complete the schedule with transfers,
// compare the boundaries between stages, place the values in one arena, and open the message queues.

#include "weft/pipeline/stage_executor.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "gradient/plan/plan_agreement.hpp"
#include "pipeline/execution/executor_state.hpp"
#include "pipeline/execution/value_slots.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::pipeline {
namespace {

Problem without_costs(const Schedule& schedule) {
  Problem problem;
  problem.devices = schedule.devices();
  problem.microbatches = schedule.microbatches;
  problem.costs.stages.resize(static_cast<std::size_t>(schedule.stages()));
  problem.costs.hops.resize(static_cast<std::size_t>(std::max(0, schedule.stages() - 1)));
  return problem;
}

bool has_transfers(const Schedule& schedule) {
  return std::ranges::any_of(schedule.rows, [](const auto& row) {
    return std::ranges::any_of(row, [](const Action& one) { return one.type == ActionType::send_forward; });
  });
}

/// What is wrong with the arguments on this device alone.
std::optional<Error> objection(const Communicator& comm, const Schedule& schedule,
                               const std::vector<Stage*>& stages) {
  const auto refuse = [&](const std::string& problem, const std::string& advice) {
    return Error(ErrorKind::usage, problem, advice, {comm.rank(), "StageExecutor", 0});
  };
  if (schedule.devices() != comm.size()) {
    return refuse(text("a schedule of ", schedule.devices(), " devices for ", comm.size(), " ranks"),
                  "the communicator's ranks are the devices: split it where there are several pipelines");
  }
  const std::vector<int> mine = schedule.stages_of(comm.rank());
  if (mine.size() != stages.size()) {
    return refuse(
        text(stages.size(), " stages given where the schedule has ", mine.size(), " on device ", comm.rank()),
        "give those of Schedule::stages_of(rank), rising");
  }
  if (std::ranges::find(stages, nullptr) != stages.end()) return refuse("a stage is null", {});
  return std::nullopt;
}

std::string described(const Boundary& one) {
  return text(one.count, " ", one.dtype);
}

/// Collective. @param own what is wrong on this device alone, if anything: thrown once the others know of it.
/// @throws Error (mismatch) naming two devices whose schedules or options differ
void agree_on_schedule(Communicator comm, const Schedule& schedule, const ExecutorOptions& options,
                       const std::optional<Error>& own) {
  std::string mine = text("has ", schedule.name, " (", hex(schedule.hash()), ")",
                          options.sizes_travel ? " and sizes that travel" : "");
  if (own) mine = "cannot make its executor: " + own->problem();
  try {
    weft::detail::agree_on(
        comm, mine,
        {"the devices of a pipeline do not go together",
         "make the same schedule on every rank, or send rank 0's to the others", "StageExecutor"});
  } catch (const Error&) {
    if (!own) throw;
  }
  if (own) throw Error(*own);
}

/// Collective: the boundaries of all stages. [s] is what stage s takes, [s + 1] what it gives.
/// @throws Error (mismatch) naming two neighbours that disagree
std::vector<Boundary> agree_on_boundaries(Communicator comm, const Schedule& schedule,
                                          const std::vector<Stage*>& mine) {
  const auto stages = static_cast<std::size_t>(schedule.stages());
  // The inputs of all stages, then their outputs: each device fills in its own, and a sum collects them.
  std::vector<std::int64_t> all(4 * stages);
  const std::vector<int> here = schedule.stages_of(comm.rank());
  for (std::size_t i = 0; i < here.size(); ++i) {
    const std::array both{mine[i]->input(), mine[i]->output()};
    for (std::size_t side = 0; side < 2; ++side) {
      const std::size_t at = 2 * (side * stages + static_cast<std::size_t>(here[i]));
      all[at] = both[side].count;
      all[at + 1] = static_cast<std::int64_t>(both[side].dtype);
    }
  }
  Stream stream;
  comm.all_reduce(View(std::span(all)), ReduceOp::sum, stream).wait();

  const auto boundary = [&](std::size_t side, std::size_t stage) {
    const std::size_t at = 2 * (side * stages + stage);
    return Boundary{static_cast<DataType>(all[at + 1]), all[at]};
  };
  std::vector<Boundary> result{boundary(0, 0)};
  for (std::size_t s = 0; s < stages; ++s) {
    const Boundary gives = boundary(1, s);
    if (s + 1 < stages && (gives != boundary(0, s + 1) || gives.count < 1)) {
      throw Error(
          ErrorKind::mismatch,
          text("stage ", s, " (device ", schedule.device_of[s], ") gives ", described(gives), ", stage ",
               s + 1, " (device ", schedule.device_of[s + 1], ") takes ", described(boundary(0, s + 1))),
          "Stage::output() of one and input() of the next must be the same, and not nothing",
          {comm.rank(), "StageExecutor", 0});
    }
    result.push_back(gives);
  }
  if (result.front().count != 0 || result.back().count != 0) {
    throw Error(ErrorKind::usage,
                text("stage 0 takes ", described(result.front()), " and the last stage gives ",
                     described(result.back())),
                "nothing crosses the ends of a model: both are 0 elements",
                {comm.rank(), "StageExecutor", 0});
  }
  return result;
}

}  // namespace

StageExecutor::State::State(Communicator communicator, Schedule given, std::vector<Stage*> mine,
                            const ExecutorOptions& chosen)
    : users("StageExecutor", communicator),
      comm(std::move(communicator)),
      schedule(std::move(given)),
      options(chosen),
      stages_(std::move(mine)),
      counters_(weft::detail::shared_counters(comm)) {
  agree_on_schedule(comm, schedule, options, objection(comm, schedule, stages_));
  const Problem problem = without_costs(schedule);
  verify(schedule, problem);
  if (!has_transfers(schedule)) {
    schedule = with_communication(schedule);
    verify(schedule, problem);
  }
  stage_numbers_ = schedule.stages_of(comm.rank());
  boundaries_ = agree_on_boundaries(comm, schedule, stages_);
  place();
  queues_.emplace(comm, schedule, options.sizes_travel, arena_.view());
  progress_.emplace(comm, schedule);
  if (!options.trace) return;
  trace_ = StreamTrace(options.trace, comm.device(), "pipeline");
  if (options.costs) prediction_ = simulate(schedule, *options.costs, Keep::times);
}

// After an error other devices may still be reading what was sent. The arena is kept for good, so that its
// memory is never used for anything else.
StageExecutor::State::~State() {
  counters_->leave(this);
  if (!broken_) return;
  static std::mutex mutex;
  static auto* const kept = new std::vector<Buffer>;  // NOLINT: must outlive main
  const std::lock_guard lock(mutex);
  try {
    kept->push_back(std::move(arena_));
  } catch (...) {  // without memory for the list the arena is freed after all
  }
}

void StageExecutor::State::place() {
  plan_ = detail::place_values(schedule, comm.rank(), boundaries_);
  // Device memory is registered by all ranks together, so all allocate the largest size.
  std::int64_t bytes = static_cast<std::int64_t>(plan_.bytes);
  if (!comm.device().is_host()) {
    Stream stream;
    comm.all_reduce(View(std::span(&bytes, 1)), ReduceOp::max, stream).wait();
  }
  arena_ = comm.allocate(DataType::u8, bytes);
  free_since_.resize(plan_.slots.size());
  microbatches_.resize(stages_.size());
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const detail::StageSlots& slots : plan_.of[s]) microbatches_[s].push_back({.values = slots});
  }
  for (const Action& one : schedule.rows[static_cast<std::size_t>(comm.rank())]) {
    if (one.type == ActionType::recompute) of(one).recomputed = true;
  }
}

bool StageExecutor::State::is_here(int stage) const {
  return std::ranges::find(stage_numbers_, stage) != stage_numbers_.end();
}

Stage& StageExecutor::State::stage(const Action& action) {
  const auto at = std::ranges::find(stage_numbers_, action.stage) - stage_numbers_.begin();
  return *stages_[static_cast<std::size_t>(at)];
}

StageExecutor::State::MicrobatchSlots& StageExecutor::State::of(int stage, int microbatch) {
  const auto at = std::ranges::find(stage_numbers_, stage) - stage_numbers_.begin();
  return microbatches_[static_cast<std::size_t>(at)][static_cast<std::size_t>(microbatch)];
}

View StageExecutor::State::view(int slot, int boundary, std::int64_t count) {
  if (slot == detail::no_slot) return {};
  const detail::Slot& place = plan_.slots[static_cast<std::size_t>(slot)];
  return {arena_.view().bytes() + place.offset, count, boundaries_[static_cast<std::size_t>(boundary)].dtype,
          arena_.view().device()};
}

StageExecutor::StageExecutor(Communicator comm, Schedule schedule, std::vector<Stage*> stages,
                             const ExecutorOptions& options)
    : state_(std::make_unique<State>(std::move(comm), std::move(schedule), std::move(stages), options)) {}
StageExecutor::~StageExecutor() = default;
StageExecutor::StageExecutor(StageExecutor&&) noexcept = default;

void StageExecutor::step(const Stream& compute) {
  const auto turn = state_->users.enter("step");
  state_->step(compute);
}
const Schedule& StageExecutor::schedule() const {
  return state_->schedule;
}
int StageExecutor::device() const {
  return state_->comm.rank();
}
std::int64_t StageExecutor::held_bytes() const {
  return state_->held_bytes();
}
std::uint64_t StageExecutor::wire_bytes() const {
  return state_->wire_bytes();
}
const Execution& StageExecutor::execution() const {
  return state_->execution;
}

}  // namespace weft::pipeline
