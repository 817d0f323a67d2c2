#include "weft-scaling/pages/scaling_page.hpp"

#include <algorithm>
#include <cmath>

#include "common/page/markup.hpp"
#include "common/page/page.hpp"
#include "weft-scaling/pages/scaling_charts.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Strategy = ScalingPage::Strategy;

/// The strategy that the verdict is about: the fastest one that communicates.
const Strategy* subject(const std::vector<Strategy>& strategies) {
  const Strategy* best = nullptr;
  for (const Strategy& one : strategies) {
    if (one.name == "nocomm") continue;
    if (best == nullptr || one.tokens_per_second > best->tokens_per_second) best = &one;
  }
  return best != nullptr || strategies.empty() ? best : &strategies.front();
}

std::string waiting_for(const Strategy& one) {
  if (one.slowest_seconds <= 0 || !one.slowest_rank) return {};
  if (one.slowest_seconds > one.exposed_seconds / 2)
    return text("; most of the waiting is for rank ", *one.slowest_rank);
  return text("; ", duration(one.slowest_seconds), " of the waiting is for rank ", *one.slowest_rank);
}

std::string change(const Comparison& comparison, const std::string& strategy) {
  const auto row = std::ranges::find(comparison.rows, strategy, &Comparison::Row::strategy);
  if (row == comparison.rows.end()) return {};
  if (row->verdict == Verdict::unchanged) return "; no change since the earlier run";
  return text("; a step is ", percent(std::abs(1 - row->ratio)), row->ratio < 1 ? " shorter" : " longer",
              " than in the earlier run", computing_changed(comparison) ? ", but nocomm changed too" : "");
}

/// "ddp: weak scaling keeps 97.0 % on 4 ranks; strong scaling keeps 91.2 % on 4 ranks"
std::string of_sweep(const std::vector<ScalingPage::Point>& points) {
  std::string words;
  for (const char* scaling : {"weak", "strong"}) {
    const ScalingPage::Point* most = nullptr;
    for (const auto& point : points)
      if (point.scaling == scaling && (most == nullptr || point.ranks > most->ranks)) most = &point;
    if (most == nullptr) continue;
    words += text(words.empty() ? "" : "; ", scaling, " scaling keeps ", percent(most->efficiency), " on ",
                  most->ranks, most->ranks == 1 ? " rank" : " ranks");
  }
  return words;
}

struct Column {
  std::string heading;
  std::vector<std::string> cells;
};

Column numbers(std::string heading, const std::vector<Strategy>& rows, auto value, double unit = 1) {
  double largest = 0;
  for (const Strategy& one : rows) largest = std::max(largest, value(one) * unit);
  Column column{std::move(heading), {}};
  for (const Strategy& one : rows) column.cells.push_back(fixed(value(one) * unit, decimals_for(largest)));
  return column;
}

Column words(std::string heading, const std::vector<Strategy>& rows, auto value) {
  Column column{std::move(heading), {}};
  for (const Strategy& one : rows) column.cells.push_back(value(one));
  return column;
}

bool any(const std::vector<Strategy>& rows, double Strategy::*value) {
  return std::ranges::any_of(rows, [value](const Strategy& one) { return one.*value > 0; });
}

std::string figures(const std::vector<Strategy>& rows) {
  const auto share = [](const std::optional<double>& value) { return value ? percent(*value) : "-"; };
  std::vector<Column> columns{
      words("strategy", rows, [](const Strategy& one) { return one.name; }),
      numbers(
          "step ms", rows, [](const Strategy& one) { return one.step_seconds; }, 1e3),
      numbers(
          "p99 ms", rows, [](const Strategy& one) { return one.p99_seconds; }, 1e3),
      words("tokens/s", rows, [](const Strategy& one) { return grouped(one.tokens_per_second); }),
      words("speed vs nocomm", rows, [&](const Strategy& one) { return share(one.efficiency_vs_nocomm); }),
      words("speed vs 1 rank", rows, [&](const Strategy& one) { return share(one.efficiency_vs_single); }),
      numbers(
          "exposed ms", rows, [](const Strategy& one) { return one.exposed_seconds; }, 1e3)};
  if (any(rows, &Strategy::link_busy_seconds))
    columns.push_back(numbers(
        "link busy ms", rows, [](const Strategy& one) { return one.link_busy_seconds; }, 1e3));
  columns.push_back(words("sent/step", rows, [](const Strategy& one) { return bytes(one.wire_bytes); }));
  columns.push_back(words("held", rows, [](const Strategy& one) { return bytes(one.peak_bytes); }));
  columns.push_back(words("held-out loss", rows, [](const Strategy& one) {
    return text(fixed(one.first_loss, 3), " → ", fixed(one.last_loss, 3));
  }));
  std::vector<std::string> heading;
  std::vector<std::vector<std::string>> lines(rows.size());
  for (const Column& column : columns) {
    heading.push_back(column.heading);
    for (std::size_t i = 0; i < rows.size(); ++i) lines[i].push_back(column.cells[i]);
  }
  return table("Figures of each strategy", heading, lines);
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return {};
  std::string result = "<table class=\"facts\"><tbody>\n";
  for (const auto& [name, value] : rows)
    result += text("<tr><th scope=\"row\">", escaped(name), "</th><td>", escaped(value), "</td></tr>\n");
  return result + "</tbody></table>\n";
}

std::string body(const ScalingPage& page) {
  std::string result;
  if (!page.strategies.empty())
    result +=
        section("Figures",
                "Medians over steps; p99 is the worst rank's, exposed is the time the compute stream waited.",
                figures(page.strategies));
  result += section("Where a step goes", "A median step, mean over ranks. Bars are to one scale.",
                    parts_of_a_step(page.strategies));
  const auto drawn = std::ranges::find(page.strategies, page.timeline_of, &Strategy::name);
  const std::string rows = overlap(page.timeline, drawn == page.strategies.end() ? nullptr : &*drawn);
  if (!rows.empty()) {
    result += section(
        "How communication overlaps",
        text("The last step", page.timeline_of.empty() ? "" : " of " + escaped(page.timeline_of),
             ", on every rank: one step, which may be longer or shorter than the median step that all other "
             "figures are "
             "about. Point at a span to read what it is; spans thinner than a pixel are drawn together."),
        rows);
  }
  result += section("Scaling", "Tokens per second of a rank, as a share of the smallest number of ranks.",
                    efficiency_lines(page.scaling));
  if (page.scaling.empty())
    result +=
        section("Efficiency", "Tokens per second of a rank, as a share.", efficiency_bars(page.strategies));
  result +=
      section("How steps vary", "How many steps took how long, as means over ranks; the line is the median.",
              step_times(page.strategies));
  result += section("Held-out loss",
                    "Of text that no rank trains on, after so many steps. Lower is better; lines lead to the "
                    "strategies' labels.",
                    loss_curves(page.strategies));
  if (page.comparison) {
    result += section(
        "Against the earlier run",
        text("Median step as a share of ", escaped(page.comparison->earlier),
             ". Points have their 95\u00a0% interval; within the grey band (1\u00a0%) nothing counts as a "
             "change. The interval knows how steps vary within the two runs, not what else differs "
             "between two runs."),
        ratios(*page.comparison));
  }
  return result + section("The run", "", facts(page.facts));
}

}  // namespace

std::string verdict(const ScalingPage& page) {
  const Strategy* one = subject(page.strategies);
  if (one == nullptr)
    return page.scaling.empty() ? "Nothing was measured." : text("ddp: ", of_sweep(page.scaling), ".");
  std::string words = one->name;
  const bool compares = one->efficiency_vs_nocomm && one->name != "nocomm";
  words += compares ? text(" reaches ", percent(*one->efficiency_vs_nocomm),
                           " of the speed without communication (nocomm)")
                    : text(" takes ", duration(one->step_seconds), " a step");
  if (one->exposed_seconds > 0) {
    words += text("; ", duration(one->exposed_seconds),
                  compares ? text(" of a ", duration(one->step_seconds), " step") : " of it", " are exposed",
                  waiting_for(*one));
  }
  if (page.comparison) words += change(*page.comparison, one->name);
  return words + ".";
}

std::string to_html(const ScalingPage& page) {
  const std::string title = "weft-scaling: " + page.title;
  return whole_page(title, text("<h1>", escaped(title), "</h1>\n<p class=\"verdict\">",
                                escaped(verdict(page)), "</p>\n", body(page)));
}

}  // namespace weft::report
