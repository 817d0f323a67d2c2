#pragma once
// What the V-shaped schedules share: two chunks there and back, and how many of them a device may hold.
//
// Their memory is balanced because a device whose first chunk waits long for its gradient has a second that
// waits briefly, and the other way round. So each chunk may have its share of what is held, by how long its
// activations live where everything takes one slot: 4p - 2d for the first chunk on device d, 2d + 2 for the
// second (Qi et al. 2024, section 3.1). Without the shares the first chunk would take all there is.

#include "best_listed.hpp"
#include "refusal.hpp"

namespace weft::pipeline::detail {

/// One set of rules: what goes first of F and F of the second chunk, I and I of the second chunk.
struct VRules {
  std::vector<int> rank;
  bool alternate = false, make_room = false, eager_weights = false, patient = false;
  int beyond_share = -1;  ///< how many more than its share the first chunk may have; -1: any number
};

/// @param held chunks that a device holds at most
Listed v_listed(const Problem& problem, const std::vector<int>& placement, int held,
                std::span<const VRules> rules);

}  // namespace weft::pipeline::detail
