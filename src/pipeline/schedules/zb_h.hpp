#pragma once
// What the two handcrafted zero-bubble schedules share: how many microbatches a device has in flight (forward
// to I) and how many it holds (forward to W) are given, and the order follows.

#include "refusal.hpp"

namespace weft::pipeline::detail {

struct ZbLimits {
  std::vector<int> in_flight, held;  // of each device
};

std::optional<Refusal> zb_h_refusal(const char* name, const Problem& problem, const ZbLimits& limits);
Schedule zb_h(const char* name, const Problem& problem, std::vector<int> placement, const ZbLimits& limits);

}  // namespace weft::pipeline::detail
