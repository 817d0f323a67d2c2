#pragma once
// Options of weft-plan scale: a model, hardware and a plan.

#include <optional>
#include <string>
#include <vector>

#include "weft-plan/scale/hardware.hpp"
#include "weft-plan/scale/plan.hpp"
#include "weft-plan/scale/search.hpp"

namespace weft::plan {

struct ScaleCommand {
  scale::HardwareFile hardware;
  scale::Model model;
  scale::Plan plan;
  bool explains = false;
  std::optional<scale::Space> search;  ///< instead of one plan
  std::size_t best = 10;               ///< plans of a search that are shown
  bool runs = false;                   ///< the published runs of the hardware, instead of a plan
  std::optional<std::string> json;
  bool help = false;
};

/// @throws Error (usage) naming the argument, its value and what is allowed
ScaleCommand parse_scale(const std::vector<std::string>& arguments);
std::string scale_help();

}  // namespace weft::plan
