#pragma once
// A schedule for given costs and memory, and how far from the best it can be at most.
//
//   Synthesis found = synthesize({.devices = 8, .microbatches = 32, .costs = profile, .memory_limit =
//   limits}); found.schedule                  // compute actions; passes add communication found.length,
//   found.gap()       // 0: nothing is shorter holds(found.certificate, found.problem, found.floor_placement)
//
// All named schedules that fit compete, a list scheduler with rules tries to do better, and a search goes on
// from the best rules until the bound is reached or its effort is spent. Deterministic: no clock is asked.

#include <string>
#include <vector>

#include "weft/pipeline/certificate.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

enum class Shape { looped, v };

struct SynthesisOptions {
  Objective objective = Objective::makespan;
  /// Chunks a device may have: every number up to that of the problem that divides it, or just that of the
  /// problem. With fewer, neighbouring stages are joined.
  bool fewer_chunks = true;
  std::vector<Shape> shapes{Shape::looped, Shape::v};
  /// A multiple of what the search usually places until it stops: 800 times the problem's actions, at least
  /// 1.2 million and at most 20 million, about a second on one core. It always makes a few passes.
  double effort = 1;
};

struct Synthesis {
  Schedule schedule;
  Problem problem;  ///< the one given, in the stages that the schedule has
  Objective objective = Objective::makespan;
  Nanoseconds length = 0;   ///< of the objective, as simulate() has it
  Certificate certificate;  ///< the lowest of all placements that were allowed
  Problem floor_problem;    ///< what it is about
  std::vector<int> floor_placement;

  /// How much longer than the best at most, of the bound.
  double gap() const;
};

/// @throws Error (usage) as expect_valid(), and where no schedule fits the memory
Synthesis synthesize(const Problem& problem, const SynthesisOptions& options = {});

}  // namespace weft::pipeline
