#pragma once
// A meter's figures as prometheus-cpp has them, with the rank on every sample.

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "weft/collectives/meter.hpp"

namespace weft::detail {

/// Families without a sample are left out.
std::vector<prometheus::MetricFamily> families_of(const Meter& meter);
/// In Prometheus' text format.
std::string text_of(const Meter& meter);

}  // namespace weft::detail
