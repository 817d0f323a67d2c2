// What changed since an earlier run.

#include <algorithm>

#include "report/page/axis.hpp"
#include "report/page/markup.hpp"
#include "report/page/scaling_charts.hpp"
#include "report/page/table.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
std::string ratios(const Comparison& comparison) {
  std::string remarks;
  for (const std::string& one : comparison.only_before)
    remarks += text("<li>", escaped(one), ": only in the earlier run</li>");
  for (const std::string& one : comparison.only_after)
    remarks += text("<li>", escaped(one), ": not in the earlier run</li>");
  if (computing_changed(comparison))
    remarks += "<li>nocomm sends nothing and changed: so did the machine or the computing</li>";
  if (!remarks.empty()) remarks = "<ul class=\"keys\">" + remarks + "</ul>\n";
  if (comparison.rows.empty()) return remarks;

  double low = 0.97;
  double high = 1.03;
  std::string description;
  std::vector<std::vector<std::string>> figures;
  for (const auto& row : comparison.rows) {
    low = std::min(low, row.low);
    high = std::max(high, row.high);
    description += text(description.empty() ? "" : "; ", row.strategy, ": ", fixed(row.ratio, 3), ", ",
                        name(row.verdict));
    figures.push_back({row.strategy, name(row.verdict), duration(row.before_seconds),
                       duration(row.after_seconds), fixed(row.ratio, 3),
                       text(fixed(row.low, 3), " to ", fixed(row.high, 3))});
  }
  const Axis axis(low - (high - low) * 0.04, high + (high - low) * 0.04);
  constexpr double row_height = 42;
  const double bottom = row_height * static_cast<double>(comparison.rows.size());
  Svg svg("Step time as a share of the earlier run", description, bottom + 24);
  svg.rect({axis.x(1 - tolerance), axis.x(1 + tolerance)}, {0, bottom}, "rail");
  axis.draw(svg, bottom, 1, "");
  svg.line(axis.x(1), 0, axis.x(1), bottom, "ideal");
  double y = 0;
  for (const auto& row : comparison.rows) {
    svg.text(0, y + 15, row.strategy, Anchor::start, "strong");
    svg.text(1, y + 15, name(row.verdict), Anchor::end, name(row.verdict));
    svg.line(axis.x(row.low), y + 28, axis.x(row.high), y + 28, "interval");
    svg.dot(axis.x(row.ratio), y + 28, "middle",
            text(fixed(row.ratio, 3), " (", fixed(row.low, 3), " to ", fixed(row.high, 3), ")"));
    y += row_height;
  }
  return svg.str() +
         table("Step time against the earlier run",
               {"strategy", "verdict", "earlier", "now", "ratio", "95\u00a0% interval"}, figures, 1) +
         remarks;
}

}  // namespace weft::report
