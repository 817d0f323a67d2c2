#include "weft/pipeline/schedules.hpp"
#include "zb_h.hpp"

namespace weft::pipeline {
namespace detail {
namespace {

ZbLimits zb_h2_limits(int devices) {
  ZbLimits limits;
  for (int device = 0; device < devices; ++device) {
    limits.in_flight.push_back(2 * (devices - device) - 1);
    limits.held.push_back(2 * devices - 1);
  }
  return limits;
}

}  // namespace

std::optional<Refusal> zb_h2_refusal(const Problem& problem) {
  return zb_h_refusal("zb-h2", problem, zb_h2_limits(problem.devices));
}

}  // namespace detail

Schedule zb_h2(const Problem& problem) {
  std::vector<int> placement =
      detail::accepted(problem, looped_placement(problem.devices), detail::zb_h2_refusal);
  return detail::zb_h("zb-h2", problem, std::move(placement), detail::zb_h2_limits(problem.devices));
}

}  // namespace weft::pipeline
