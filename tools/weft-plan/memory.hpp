#pragma once

#include <iosfwd>

#include "sized_model.hpp"

namespace weft::plan {

/// A stage on a number of ranks.
struct MemoryCase {
  zero::MemoryOptions options{};
  zero::MemoryPlan plan{};      ///< of the layout, where there is one; else the closed form
  zero::MemoryPlan estimate{};  ///< the closed form
  bool fits = false;
  std::int64_t largest = 0;             ///< parameters, by the closed form
  std::optional<int> least_ranks = {};  ///< the same
};

/// Of every number of ranks each stage, in the command's order. @throws Error (usage) for what has no plan
std::vector<MemoryCase> memory_cases(const MemoryCommand& command, const SizedModel& model);

void explain_memory(const MemoryCommand& command, const SizedModel& model,
                    const std::vector<MemoryCase>& cases, std::ostream& out);
std::string memory_json(const std::vector<MemoryCase>& cases);

/// `weft-plan memory`. @param arguments after that word
int run_memory(const std::vector<std::string>& arguments);

}  // namespace weft::plan
