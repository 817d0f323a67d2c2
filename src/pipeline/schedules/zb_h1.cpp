#include "weft/pipeline/schedules.hpp"
#include "zb_h.hpp"

namespace weft::pipeline {
namespace detail {
namespace {

ZbLimits zb_h1_limits(int devices) {
  ZbLimits limits;
  for (int device = 0; device < devices; ++device) {
    limits.in_flight.push_back(devices - device);
    limits.held.push_back(devices);
  }
  return limits;
}

}  // namespace

std::optional<Refusal> zb_h1_refusal(const Problem& problem) {
  return zb_h_refusal("zb-h1", problem, zb_h1_limits(problem.devices));
}

}  // namespace detail

Schedule zb_h1(const Problem& problem) {
  std::vector<int> placement =
      detail::accepted(problem, looped_placement(problem.devices), detail::zb_h1_refusal);
  return detail::zb_h("zb-h1", problem, std::move(placement), detail::zb_h1_limits(problem.devices));
}

}  // namespace weft::pipeline
