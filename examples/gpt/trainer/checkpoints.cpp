#include "gpt/trainer/checkpoints.hpp"

#include <utility>

#include "weft/checkpoint/checkpointer.hpp"

namespace weft::examples {

class Checkpoints::State : public checkpoint::Checkpointer {
 public:
  using Checkpointer::Checkpointer;
};

Checkpoints::Checkpoints(Communicator comm, CheckpointOptions options)
    : state_(std::make_unique<State>(
          std::move(comm),
          checkpoint::CheckpointerOptions{options.folder, options.every, options.keep_last, options.run})) {}
Checkpoints::~Checkpoints() = default;

std::int64_t Checkpoints::load(zero::ShardedOptimizer& optimizer, const Stream& compute) {
  return state_->resume([&](const checkpoint::Checkpoint& found) { optimizer.load_state(found, compute); });
}

bool Checkpoints::save(zero::ShardedOptimizer& optimizer, const Stream& compute, std::int64_t steps,
                       bool last) {
  return state_->after_step(steps, last, [&] { return optimizer.state(compute); });
}

}  // namespace weft::examples
