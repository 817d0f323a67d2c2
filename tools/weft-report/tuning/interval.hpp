#pragma once
// The ratio of two settings from runs in turn. Each pair of runs gives one logarithm of a ratio. Its middle is their trimmed mean, without the least and
// the greatest fifth, and its interval is Yuen's (Biometrika 1974): Student's t over what is left, with the spread of the winsorized values. So a run in
// five that something disturbed does not decide, as it would with a mean; and a steady small gain shows with few pairs.
//
//   const Interval gain = interval_of(logs, 0.975);
//   if (gain.greatest < 0) ...          // the second of each pair is faster, and chance explains that in 1 of 40 cases

#include <vector>

namespace weft::report::tuning {

/// Logarithms of ratios.
struct Interval {
  double least = 0;
  double middle = 0;
  double greatest = 0;
};

/// @param logs one for each pair; with fewer than two the interval has no ends (infinities)
/// @param certainty that the truth is below `greatest`, and as much that it is above `least`: 0.975 for both together 0.95
Interval interval_of(std::vector<double> logs, double certainty);

/// The median; 0 of none.
double median_of(std::vector<double> values);

}  // namespace weft::report::tuning
