#pragma once
// What to change in a plan that does not fit the memory of a GPU.

#include <string>
#include <vector>

#include "weft-plan/scale/plan.hpp"

namespace weft::scale {

/// Options that would each make the plan fit, alone: "--recompute full". Empty where none does.
std::vector<std::string> what_would_fit(const Model& model, const Hardware& hardware, const Plan& plan);

}  // namespace weft::scale
