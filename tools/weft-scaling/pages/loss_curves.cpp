// The held-out loss over steps: what a strategy costs in learning.
//
// Most curves of a run lie on top of each other, and the differences that matter are thinner than a line. A
// second drawing therefore shows the difference of each to the first strategy that sends whole gradients.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "common/page/curves.hpp"
#include "common/page/markup.hpp"
#include "weft-scaling/pages/scaling_charts.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Strategy = ScalingPage::Strategy;

std::string loss_words(double loss) {
  return fixed(loss, 3);
}

/// A loss that exploded is written with an exponent, not with a hundred digits.
std::string loss_figure(double loss) {
  return std::isfinite(loss) && loss >= 1e6 ? text(loss) : fixed(loss, 4);
}

/// "+2.43 %"
std::string difference_words(double share) {
  if (!std::isfinite(share)) return "-";
  const std::string digits = fixed(share * 100, 2);
  return text(share > 0 && digits != fixed(0, 2) ? "+" : "", digits, "\u00a0%");
}

/// A loss that explodes must not squeeze all others together: points above 1.5 times the first loss are
/// counted instead of drawn.
double ceiling_of(const std::vector<Strategy>& learned) {
  double start = 0;
  for (const Strategy& one : learned) {
    if (std::isfinite(one.curve.front().held_out)) start = std::max(start, one.curve.front().held_out);
  }
  return start > 0 ? 1.5 * start : HUGE_VAL;
}

std::vector<Curve> losses_of(const std::vector<Strategy>& learned, double ceiling) {
  std::vector<Curve> curves;
  for (const Strategy& one : learned) {
    curves.push_back({one.name, look_of(curves.size()), {}});
    for (const auto& [step, loss] : one.curve)
      curves.back().places.push_back({step, std::isfinite(loss) && loss <= ceiling ? loss : not_drawn});
  }
  return curves;
}

std::vector<Curve> differences(const std::vector<Curve>& losses, const Curve& reference) {
  std::map<std::int64_t, double> of_reference;
  for (const Curve::Place& place : reference.places) of_reference[place.step] = place.value;
  std::vector<Curve> result;
  for (const Curve& one : losses) {
    if (&one == &reference) continue;
    result.push_back({one.name, one.look, {}});
    for (const auto& [step, loss] : one.places) {
      const auto found = of_reference.find(step);
      const bool known = found != of_reference.end() && found->second > 0;
      result.back().places.push_back({step, known ? loss / found->second - 1 : not_drawn});
    }
  }
  return result;
}

/// `range`, widened to hold every point that is drawn.
Range widened(Range range, const std::vector<Curve>& curves) {
  for (const Curve& one : curves) {
    for (const Curve::Place& place : one.places) {
      if (std::isnan(place.value)) continue;
      range.begin = std::min(range.begin, place.value);
      range.end = std::max(range.end, place.value);
    }
  }
  return range;
}

Range with_margin(Range range) {
  const double margin = std::max((range.end - range.begin) * 0.05, std::abs(range.end) * 0.01);
  return {range.begin - margin, range.end + margin};
}

std::string left_out(const std::vector<Curve>& losses, double ceiling) {
  std::string words;
  for (const Curve& one : losses) {
    const auto missing =
        std::ranges::count_if(one.places, [](const Curve::Place& place) { return std::isnan(place.value); });
    if (missing > 0)
      words +=
          text(words.empty() ? "" : ", ", missing, missing == 1 ? " point of " : " points of ", one.name);
  }
  if (words.empty()) return {};
  return text("<p class=\"note\">Not drawn: ", escaped(words), ", no number",
              std::isinf(ceiling) ? "" : text(" or above ", fixed(ceiling, 1)),
              "; the table has them.</p>\n");
}

/// A row for each step, a column for each strategy's loss and difference.
std::string figures(const std::vector<Strategy>& learned, const std::vector<Curve>& against,
                    const std::string& reference) {
  std::vector<std::string> heading{"step"};
  std::map<std::int64_t, std::vector<std::string>> rows;
  const auto column = [&](std::string name, const std::map<std::int64_t, std::string>& cells) {
    heading.push_back(std::move(name));
    for (const auto& [step, words] : cells) rows.try_emplace(step, 1, text(step));
    for (auto& [step, row] : rows) {
      row.resize(heading.size(), "-");
      if (const auto found = cells.find(step); found != cells.end()) row.back() = found->second;
    }
  };
  for (const Strategy& one : learned) {
    std::map<std::int64_t, std::string> cells;
    for (const auto& [step, loss] : one.curve) cells[step] = loss_figure(loss);
    column(one.name, cells);
  }
  for (const Curve& one : against) {
    std::map<std::int64_t, std::string> cells;
    for (const auto& [step, share] : one.places) cells[step] = difference_words(share);
    column(text(one.name, ", against ", reference), cells);
  }
  std::vector<std::vector<std::string>> lines;
  for (auto& [step, row] : rows) lines.push_back(std::move(row));
  return table("Held-out loss over steps", heading, lines);
}

}  // namespace

std::string loss_curves(const std::vector<Strategy>& strategies) {
  std::vector<Strategy> learned;
  std::ranges::copy_if(strategies, std::back_inserter(learned),
                       [](const Strategy& one) { return one.curve.size() > 1; });
  if (learned.empty()) return {};
  const double ceiling = ceiling_of(learned);
  const std::vector<Curve> losses = losses_of(learned, ceiling);
  const Range range = widened({HUGE_VAL, -HUGE_VAL}, losses);
  if (range.begin > range.end) return left_out(losses, ceiling) + figures(learned, {}, {});

  std::string drawings = curves_over_steps({.title = "Held-out loss over steps",
                                            .least_height = 230,
                                            .values = with_margin(range),
                                            .unit = 1,
                                            .suffix = "",
                                            .words = loss_words},
                                           losses);
  const auto reference = std::ranges::find_if(
      learned, [](const Strategy& one) { return one.name != "nocomm" && !one.compressed; });
  std::vector<Curve> against;
  if (reference != learned.end() && learned.size() > 1) {
    against = differences(losses, losses[static_cast<std::size_t>(reference - learned.begin())]);
    const std::string title = text("Difference to ", reference->name);
    // Less than a thousandth would draw rounding as large as what matters.
    const Range shares = with_margin(widened({-0.0005, 0.0005}, against));
    drawings += text("<h3>", escaped(title), "</h3>\n",
                     curves_over_steps({.title = title,
                                        .least_height = 130,
                                        .values = shares,
                                        .unit = 0.01,
                                        .suffix = "\u00a0%",
                                        .words = difference_words},
                                       against));
  }
  return text("<div class=\"curves\">\n", drawings, "</div>\n", left_out(losses, ceiling),
              figures(learned, against, reference == learned.end() ? "" : reference->name));
}

}  // namespace weft::report
