#pragma once
// Trainings of every kind, that take nothing from the heap once they are warm: what the test and the long
// trial of it run, on two ranks that are threads.

#include <functional>
#include <string>
#include <vector>

#include "weft/collectives/communicator.hpp"

namespace weft::test {

struct SteadyTraining {
  std::string name;
  /// Trains on one rank, and calls `after_step` after each step.
  std::function<void(const Communicator& comm, int steps, const std::function<void(int)>& after_step)> train;
  int warm_steps = 2;  ///< more where the first steps are observed to plan the rest
};

std::vector<SteadyTraining> steady_trainings();

/// How its ranks meet: memory that is theirs as threads, or the node's, as processes have it.
enum class RankKind { threads, host };
constexpr const char* name(RankKind kind) {
  return kind == RankKind::threads ? "threads" : "host";
}

/// How often any thread took memory from the heap after the warm steps. heap_watch::report() says who.
std::uint64_t allocations_of(const SteadyTraining& training, RankKind kind, int steps);

}  // namespace weft::test
