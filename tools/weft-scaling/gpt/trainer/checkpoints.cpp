#include "weft-scaling/gpt/trainer/checkpoints.hpp"

#include <utility>

#include "weft/checkpoint/checkpointer.hpp"

namespace weft::examples {
namespace {

constexpr const char* batches_name = "batches of a step";

}  // namespace

class Checkpoints::State : public checkpoint::Checkpointer {
 public:
  using Checkpointer::Checkpointer;
};

Checkpoints::Checkpoints(Communicator comm, CheckpointOptions options)
    : state_(std::make_unique<State>(
          std::move(comm),
          checkpoint::CheckpointerOptions{options.folder, options.every, options.keep_last, options.run})) {}
Checkpoints::~Checkpoints() = default;

int Checkpoints::batches(int asked, int otherwise) {
  batches_ = asked != 0 ? asked : otherwise;
  const auto found = state_->newest();
  if (!found) return static_cast<int>(batches_);
  batches_ = std::get<std::int64_t>(found->value(batches_name));
  if (asked != 0 && asked != batches_)
    throw Error(ErrorKind::usage,
                text("--batches ", asked, ", and a step of ", found->path(), " has ", batches_, " batches"),
                "leave --batches out, or give another folder");
  return static_cast<int>(batches_);
}

std::int64_t Checkpoints::load(zero::ShardedOptimizer& optimizer, const Stream& compute) {
  return state_->resume([&](const checkpoint::Checkpoint& found) { optimizer.load_state(found, compute); });
}

bool Checkpoints::save(zero::ShardedOptimizer& optimizer, const Stream& compute, std::int64_t steps,
                       bool last) {
  return state_->after_step(steps, last, [&] {
    checkpoint::State all = optimizer.state(compute);
    all.values[batches_name] = batches_;
    return all;
  });
}

}  // namespace weft::examples
