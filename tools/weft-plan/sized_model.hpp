#pragma once
// The model whose memory is planned: a layout with its groups, or sizes alone.

#include <optional>
#include <string>
#include <vector>

#include "memory_options.hpp"

namespace weft::plan {

struct SizedModel {
  std::string name;
  std::optional<ParamLayout> layout{};  ///< none: the closed form is all there is
  std::vector<ParamId> groups{};
  zero::ModelSize size{};
};

/// @throws Error (usage) for a model that is none
SizedModel sized_model(const MemoryCommand& command);

}  // namespace weft::plan
