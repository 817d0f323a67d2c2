#pragma once
// Medians, and the spread of values that a few wild ones do not widen. Inline: they are in the innermost loops.

#include <algorithm>
#include <cmath>
#include <vector>

namespace weft::report::inspector {

/// The value below which `share` of the others lie; of none: 0.
inline double part(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(std::floor(share * static_cast<double>(values.size() - 1) + 0.5));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}
/// Of an even number of values, the mean of the two in the middle.
inline double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, half);
  if (values.size() % 2 != 0) return *half;
  return (*half + *std::max_element(values.begin(), half)) / 2;
}
/// What is a standard deviation where values are spread as noise is.
inline double spread(const std::vector<double>& values) {
  const double centre = middle(values);
  std::vector<double> apart;
  for (const double value : values) apart.push_back(std::abs(value - centre));
  return 1.4826 * middle(std::move(apart));
}

}  // namespace weft::report::inspector
