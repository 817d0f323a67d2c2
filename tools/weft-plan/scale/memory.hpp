#pragma once
// Bytes of a rank, part by part: parameters, gradients and optimizer state by the closed form that weft plans
// its own trainings by (weft/zero/memory_plan.hpp), activations by Korthikanti et al. 2022, as many as the
// simulated schedule holds at its peak.
//
// Plain values, any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "weft-plan/scale/plan.hpp"

namespace weft::scale {

struct MemoryPart {
  std::string name;
  double bytes = 0;
};

struct Memory {
  std::int64_t device = 0;  ///< of the pipeline: the one with the most
  std::vector<MemoryPart> parts;

  double bytes() const;
};

/// Parameters of the stages of a device, on each of its tensor-parallel ranks.
double parameters_of_device(const Model& model, const Plan& plan, std::int64_t device);

/// What a layer keeps of a micro-batch from its forward pass to its backward pass, on a rank.
double kept_bytes(const Model& model, const Hardware& hardware, const Plan& plan);
/// The same of a layer without any recomputation: what one holds while its backward pass runs.
double whole_layer_bytes(const Model& model, const Hardware& hardware, const Plan& plan);

/// @param peaks bytes of activations by device, from the simulated schedule @returns the fullest device
Memory memory_of(const Model& model, const Hardware& hardware, const Plan& plan,
                 const std::vector<double>& peaks);

/// What a device of a plan by 1f1b or interleaved holds at least: of as many micro-batches as there are devices
/// from it to the last, its activations. Costs no simulation.
Memory least_memory(const Model& model, const Hardware& hardware, const Plan& plan);

}  // namespace weft::scale
