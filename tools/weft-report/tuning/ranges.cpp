#include "weft-report/tuning/ranges.hpp"

#include <algorithm>
#include <set>

namespace weft::report::tuning {
namespace {

struct Best {
  std::string algorithm;
  double gain = 0;
};

Best best_at(const std::map<std::string, GainBySize>& gains, std::uint64_t bytes) {
  Best best;
  for (const auto& [algorithm, by_size] : gains) {
    const auto found = by_size.find(bytes);
    if (found != by_size.end() && found->second < best.gain) best = {algorithm, found->second};
  }
  return best;
}

double gain_of(const std::map<std::string, GainBySize>& gains, const std::string& algorithm,
               std::uint64_t bytes) {
  const auto one = gains.find(algorithm);
  if (one == gains.end()) return 0;
  const auto found = one->second.find(bytes);
  return found == one->second.end() ? 0 : found->second;
}

}  // namespace

std::vector<Range> fastest_ranges(const std::map<std::string, GainBySize>& gains, double swing) {
  std::set<std::uint64_t> sizes;
  for (const auto& [algorithm, by_size] : gains) {
    for (const auto& [bytes, gain] : by_size) sizes.insert(bytes);
  }
  std::vector<Range> ranges;
  std::string now;
  for (const std::uint64_t bytes : sizes) {
    const Best best = best_at(gains, bytes);
    const bool first = ranges.empty();
    if (best.gain < gain_of(gains, now, bytes) - swing) now = best.gain < -swing ? best.algorithm : "";
    if (gain_of(gains, now, bytes) > 0) now.clear();
    ranges.push_back({first ? 0 : bytes, now});
  }
  return joined(ranges);
}

const std::string& algorithm_at(const std::vector<Range>& ranges, std::uint64_t bytes) {
  static const std::string own;
  const std::string* found = &own;
  for (const Range& range : ranges) {
    if (range.from_bytes <= bytes) found = &range.algorithm;
  }
  return *found;
}

std::vector<Range> joined(const std::vector<Range>& ranges) {
  std::vector<Range> result;
  for (const Range& range : ranges) {
    if (result.empty() || result.back().algorithm != range.algorithm) result.push_back(range);
  }
  if (result.size() == 1 && result.front().algorithm.empty()) result.clear();
  return result;
}

}  // namespace weft::report::tuning
