#include "gpt/trainer/checkpoints.hpp"

#include <optional>
#include <utility>

#include "weft/checkpoint/checkpoint.hpp"
#include "weft/checkpoint/requests.hpp"
#include "weft/checkpoint/saver.hpp"

namespace weft::examples {
namespace {

constexpr const char* run_name = "run";

/// The step of the newest one as rank 0 sees it; none: -1.
std::int64_t newest_step(Communicator& comm, const std::string& folder) {
  std::int64_t step = -1;
  if (comm.rank() == 0) {
    if (const auto found = checkpoint::Checkpoint::newest(folder)) step = found->step();
  }
  Stream stream;
  comm.broadcast(View(std::span(&step, 1)), 0, stream).wait();
  return step;
}

}  // namespace

class Checkpoints::State {
 public:
  State(Communicator given, CheckpointOptions chosen)
      : comm(std::move(given)),
        options(std::move(chosen)),
        saver(comm, options.folder, {.keep_last = options.keep_last}),
        requests(comm, options.folder) {}

  Communicator comm;
  CheckpointOptions options;
  checkpoint::Saver saver;
  checkpoint::Requests requests;
  std::int64_t saved = -1;  // after so many steps
};

Checkpoints::Checkpoints(Communicator comm, CheckpointOptions options)
    : state_(options.folder.empty() ? nullptr
                                    : std::make_unique<State>(std::move(comm), std::move(options))) {}
Checkpoints::~Checkpoints() = default;

std::int64_t Checkpoints::load(zero::ShardedOptimizer& optimizer, const Stream& compute) {
  if (!state_) return 0;
  const std::int64_t step = newest_step(state_->comm, state_->options.folder);
  if (step < 0) return 0;
  const checkpoint::Checkpoint found(checkpoint::Checkpoint::path_of(state_->options.folder, step));
  const auto run = std::get<std::string>(found.value(run_name));
  if (run != state_->options.run)
    throw Error(ErrorKind::usage,
                text(found.path(), " is of another run: ", run, "; this is ", state_->options.run),
                "give the options that it was saved with, or another folder");
  optimizer.load_state(found, compute);
  return state_->saved = step;
}

bool Checkpoints::save(zero::ShardedOptimizer& optimizer, const Stream& compute, std::int64_t steps,
                       bool last) {
  if (!state_) return true;
  const checkpoint::Request asked = state_->requests.next();
  const bool due = state_->options.every > 0 && steps % state_->options.every == 0;
  if ((due || last || asked != checkpoint::Request::nothing) && steps != state_->saved) {
    checkpoint::State all = optimizer.state(compute);
    all.values[run_name] = state_->options.run;
    state_->saver.begin(steps, std::move(all));
    state_->saved = steps;
  }
  const bool ends = last || asked == checkpoint::Request::save_and_end;
  if (ends) state_->saver.finish();
  return !ends || last;
}

}  // namespace weft::examples
