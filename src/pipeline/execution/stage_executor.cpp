#include "weft/pipeline/stage_executor.hpp"

#include <algorithm>
#include <mutex>

#include "pipeline/execution/agreement.hpp"
#include "pipeline/execution/executor_state.hpp"
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

/// What this device can say against it alone.
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

}  // namespace

StageExecutor::State::State(Communicator communicator, Schedule given, std::vector<Stage*> mine,
                            const ExecutorOptions& chosen)
    : comm(std::move(communicator)), schedule(std::move(given)), options(chosen), stages_(std::move(mine)) {
  detail::agree_on_schedule(comm, schedule, options, objection(comm, schedule, stages_));
  const Problem problem = without_costs(schedule);
  verify(schedule, problem);
  if (!has_transfers(schedule)) {
    schedule = with_communication(schedule);
    verify(schedule, problem);
  }
  stage_numbers_ = schedule.stages_of(comm.rank());
  boundaries_ = detail::agree_on_boundaries(comm, schedule, stages_);
  place();
  lanes_.emplace(comm, schedule, options.sizes_travel);
  whereabouts_.emplace(comm, schedule);
  if (!options.trace) return;
  trace_ = StreamTrace(options.trace, comm.device(), "pipeline");
  if (options.costs) prediction_ = simulate(schedule, *options.costs, Keep::times);
}

// After an error other devices may still be reading what was sent: that memory is never used for anything
// else.
StageExecutor::State::~State() {
  if (!broken_) return;
  static std::mutex mutex;
  static auto* const kept = new std::vector<Buffer>;  // NOLINT: beyond the end of main, too
  const std::lock_guard lock(mutex);
  try {
    kept->push_back(std::move(arena_));
  } catch (...) {  // no memory for the list: the arena goes, which is what it was kept from
  }
}

void StageExecutor::State::place() {
  plan_ = detail::place_values(schedule, comm.rank(), boundaries_);
  // On a device memory is registered by all ranks together, and so as much everywhere.
  std::int64_t bytes = static_cast<std::int64_t>(plan_.bytes);
  if (!comm.device().is_host()) {
    Stream stream;
    comm.all_reduce(View(std::span(&bytes, 1)), ReduceOp::max, stream).wait();
  }
  arena_ = comm.allocate(DataType::u8, bytes);
  free_since_.resize(plan_.slots.size());
  passages_.resize(stages_.size());
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (const detail::StageSlots& slots : plan_.of[s]) passages_[s].push_back({.slots = slots});
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

StageExecutor::State::Passage& StageExecutor::State::of(int stage, int microbatch) {
  const auto at = std::ranges::find(stage_numbers_, stage) - stage_numbers_.begin();
  return passages_[static_cast<std::size_t>(at)][static_cast<std::size_t>(microbatch)];
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
