#include "weft-report/tuning/interval.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace weft::report::tuning {
namespace {

constexpr double trimmed_share = 0.2;  // at each end

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double one : values) sum += one;
  return sum / static_cast<double>(values.size());
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const std::size_t half = values.size() / 2;
  std::ranges::sort(values);
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Interval interval_of(std::vector<double> logs, double certainty) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (logs.empty()) return {-infinity, 0, infinity};
  std::ranges::sort(logs);
  const auto count = static_cast<double>(logs.size());
  const auto cut = static_cast<std::ptrdiff_t>(trimmed_share * count);
  const double middle = mean_of({logs.begin() + cut, logs.end() - cut});
  if (logs.size() < 2) return {-infinity, middle, infinity};
  // Winsorized: what was trimmed counts as the nearest that was not.
  std::fill(logs.begin(), logs.begin() + cut, logs[static_cast<std::size_t>(cut)]);
  std::fill(logs.end() - cut, logs.end(), *(logs.end() - cut - 1));
  const double mean = mean_of(logs);
  double squares = 0;
  for (const double one : logs) squares += (one - mean) * (one - mean);
  const double left = count - 2 * static_cast<double>(cut);
  const double error = std::sqrt(squares / (count - 1)) / (left / count * std::sqrt(count));
  const double reach = error * quantile(boost::math::students_t(left - 1), certainty);
  return {middle - reach, middle, middle + reach};
}

}  // namespace weft::report::tuning
