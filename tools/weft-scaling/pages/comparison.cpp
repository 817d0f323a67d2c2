#include "weft-scaling/pages/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include "common/page/markup.hpp"
#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

// Strategies train in turns of 5 steps. A disturbance of the machine lasts longer than a step, so the steps
// of a turn resemble each other. Steps drawn one by one would count as independent and make the interval too
// narrow; whole turns are drawn instead.
constexpr std::size_t block = 5;
constexpr std::size_t most_resamples = 10'000;
constexpr std::size_t fewest_resamples = 1'000;
constexpr std::size_t most_draws = 1'000'000'000;  // runs of 50,000 steps and more: seconds, not minutes

using Random = std::mt19937_64;  // the same numbers on every platform, unlike std's distributions

double median_in_place(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 != 0) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

/// Blocks begin anywhere and wrap around, so that every step is equally likely; the measured steps need not
/// begin with a turn.
void resample(const std::vector<double>& from, std::vector<double>& into, Random& random) {
  into.clear();
  while (into.size() < from.size()) {
    const std::size_t begin = random() % from.size();
    for (std::size_t i = 0; i < block && into.size() < from.size(); ++i)
      into.push_back(from[(begin + i) % from.size()]);
  }
}

/// The 2.5th and the 97.5th percentile of the ratio over resamples of both runs.
std::pair<double, double> interval(const std::vector<double>& before, const std::vector<double>& after) {
  Random random(1);
  std::vector<double> ratios;
  std::vector<double> drawn;
  const std::size_t wanted =
      std::clamp(most_draws / (before.size() + after.size()), fewest_resamples, most_resamples);
  for (std::size_t i = 0; i < wanted; ++i) {
    resample(before, drawn, random);
    const double old_median = median_in_place(drawn);
    resample(after, drawn, random);
    ratios.push_back(median_in_place(drawn) / old_median);
  }
  std::ranges::sort(ratios);
  const std::size_t outside = wanted / 40;
  return {ratios[outside], ratios[wanted - 1 - outside]};
}

void check(const Samples& samples, const char* run) {
  if (samples.seconds.size() < fewest_samples) {
    throw Error(ErrorKind::usage,
                text("strategy '", samples.strategy, "' has ", samples.seconds.size(),
                     " steps that count in the ", run, " run, too few to compare"),
                text("measure ", fewest_samples, " or more"));
  }
  for (const double seconds : samples.seconds) {
    if (!(seconds > 0) || std::isinf(seconds)) {
      throw Error(ErrorKind::usage, text("strategy '", samples.strategy, "' has a step of ", seconds,
                                         " seconds in the ", run, " run"));
    }
  }
}

Comparison::Row row(const Samples& before, const Samples& after) {
  check(before, "earlier");
  check(after, "later");
  Comparison::Row result{.strategy = after.strategy};
  std::vector<double> values = before.seconds;
  result.before_seconds = median_in_place(values);
  values = after.seconds;
  result.after_seconds = median_in_place(values);
  result.ratio = result.after_seconds / result.before_seconds;
  std::tie(result.low, result.high) = interval(before.seconds, after.seconds);
  if (result.high < 1 - tolerance) result.verdict = Verdict::improved;
  if (result.low > 1 + tolerance) result.verdict = Verdict::worse;
  return result;
}

}  // namespace

const char* name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::improved:
      return "improved";
    case Verdict::unchanged:
      return "unchanged";
    case Verdict::worse:
      return "worse";
  }
  return "unknown";
}

Comparison compare(std::string earlier, const std::vector<Samples>& before,
                   const std::vector<Samples>& after) {
  Comparison result{.earlier = std::move(earlier), .rows = {}, .only_before = {}, .only_after = {}};
  for (const Samples& one : after) {
    const auto old = std::ranges::find(before, one.strategy, &Samples::strategy);
    if (old == before.end()) {
      result.only_after.push_back(one.strategy);
    } else {
      result.rows.push_back(row(*old, one));
    }
  }
  for (const Samples& one : before) {
    if (std::ranges::find(after, one.strategy, &Samples::strategy) == after.end())
      result.only_before.push_back(one.strategy);
  }
  return result;
}

bool computing_changed(const Comparison& comparison) {
  const auto row = std::ranges::find(comparison.rows, "nocomm", &Comparison::Row::strategy);
  return row != comparison.rows.end() && row->verdict != Verdict::unchanged;
}

std::string to_text(const Comparison& comparison) {
  std::string lines;
  for (const auto& row : comparison.rows) {
    lines += text(detail::printable(row.strategy), ": ", fixed(row.ratio, 3), " (", fixed(row.low, 3), " to ",
                  fixed(row.high, 3), ") of the earlier step: ", name(row.verdict), "\n");
  }
  for (const std::string& strategy : comparison.only_before)
    lines += strategy + ": only in the earlier run\n";
  for (const std::string& strategy : comparison.only_after) lines += strategy + ": not in the earlier run\n";
  if (computing_changed(comparison))
    lines += "nocomm sends nothing and changed: so did the machine or the computing\n";
  return lines;
}

}  // namespace weft::report
