#pragma once
// A schedule with what is said of it.

#include "weft/pipeline/certificate.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::plan {

struct Told {
  pipeline::Schedule schedule;
  pipeline::Problem problem;
  pipeline::Certificate floor;
  pipeline::Prediction predicted;
  pipeline::Objective objective = pipeline::Objective::makespan;

  pipeline::Nanoseconds length() const { return predicted.length(objective); }
  /// How much longer than the bound, of the bound.
  double gap() const {
    return static_cast<double>(length() - floor.bound) / static_cast<double>(floor.bound);
  }
};

}  // namespace weft::plan
