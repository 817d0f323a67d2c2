#pragma once
// The time of a training step and the memory of a rank, predicted: the pipeline is simulated with the costs of
// its stages, and what gradients and parameters leave exposed is added.
//
//   const Step step = predict(model, hardware, completed(model, hardware, plan));
//   step.seconds, step.parts, step.memory.bytes()
//
// The parts add up to the step. They are those of the device of the pipeline that computes longest; a bubble
// is the rest of the schedule. Plain values, any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "weft-plan/scale/memory.hpp"
#include "weft-plan/scale/plan.hpp"

namespace weft::scale {

struct Part {
  std::string name;
  double seconds = 0;
};

struct Step {
  double seconds = 0;
  double low = 0, high = 0;  ///< by the calibration's errors on rows that were left out
  std::vector<Part> parts;
  double operations = 0;        ///< floating-point operations of all GPUs, what is recomputed included
  double model_operations = 0;  ///< without it
  Memory memory;

  double operations_per_gpu(const Plan& plan) const {
    return operations / seconds / static_cast<double>(plan.gpus);
  }
};

/// @param plan completed, and it divides. @throws Error (usage) for a schedule that cannot do it
Step predict(const Model& model, const Hardware& hardware, const Plan& plan);

/// No step of the plan is shorter, by whatever schedule: the work of a device, what goes before its first and
/// after its last computation, and the optimizer. Costs no simulation.
double least_seconds(const Model& model, const Hardware& hardware, const Plan& plan);

/// A piece of communication that may run beside a computation, and the moment that ties it to that.
struct Piece {
  double when = 0;
  double seconds = 0;
};
/// How long pieces, each of which is ready at its moment, take beyond `end`; one after the other, in order.
double beyond(const std::vector<Piece>& ready, double end);
/// By how long pieces that leave from 0 on, each of which is needed at its moment, delay those who need them.
double delay(const std::vector<Piece>& needed);

}  // namespace weft::scale
