#pragma once
// The best of a few sets of rules, as many as a problem's size leaves time for.

#include <span>

#include "list_schedule.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline::detail {

/// Tries the first ones of `rules`, one at least, and lists the best with its rows. Deterministic: how many
/// are tried depends on the number of actions alone.
Listed best_listed(const Problem& problem, const std::vector<int>& device_of,
                   std::span<const ListRules> rules, Objective objective);

}  // namespace weft::pipeline::detail
