#include "schedule_page.hpp"

#include <algorithm>
#include <optional>

#include "common/page/markup.hpp"
#include "common/page/page.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/drawing.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::plan {
namespace {

using namespace pipeline;

constexpr int drawing_width = 984;  // of the page's text

/// "27.5", with its unit.
std::string time(Nanoseconds value, const MeasuredIn& unit) {
  return text(static_cast<double>(value) / unit.nanoseconds, unit.time);
}

ScheduleResult predicted(Schedule schedule, Problem problem, Objective objective) {
  ScheduleResult result{.schedule = std::move(schedule),
                        .problem = std::move(problem),
                        .certificate = {},
                        .predicted = {},
                        .objective = objective};
  result.certificate = lower_bound(result.problem, result.schedule.device_of, objective);
  result.predicted = simulate(result.schedule, result.problem, Keep::times);
  return result;
}

Bytes peak(const ScheduleResult& one) {
  return std::ranges::max_element(one.predicted.devices, {}, &DevicePrediction::peak_memory)->peak_memory;
}

/// "zb-v takes 27.5, 3.2 % longer"
std::string verdict(const ScheduleResult& found, const std::vector<ScheduleResult>& rivals,
                    const MeasuredIn& unit) {
  const auto length = static_cast<double>(found.length());
  std::string words =
      text(found.schedule.name, " takes ", time(found.length(), unit),
           found.gap() == 0 ? ", proved shortest"
                            : text(", within ", report::percent(found.gap()), " of the bound"));
  if (rivals.empty()) return words + "; no named schedule fits beside it.";
  const ScheduleResult& best = rivals.front();
  const double more = static_cast<double>(best.length()) / length - 1;
  return words + text("; ", best.schedule.name, ", the best of ", rivals.size(),
                      rivals.size() == 1 ? " named one that fits" : " named ones that fit", ", takes ",
                      more == 0 ? "as long."
                                : text(report::percent(std::abs(more)), more > 0 ? " longer." : " less."));
}

std::string figures(const std::vector<const ScheduleResult*>& all, const MeasuredIn& unit) {
  double longest = 0;
  for (const ScheduleResult* one : all)
    longest = std::max(longest, static_cast<double>(one->predicted.makespan));
  const int decimals = report::decimals_for(longest / unit.nanoseconds);
  const auto cell = [&](Nanoseconds value) {
    return report::fixed(static_cast<double>(value) / unit.nanoseconds, decimals) + unit.time;
  };
  std::vector<std::vector<std::string>> rows;
  for (const ScheduleResult* one : all)
    rows.push_back({one->schedule.name, text(one->schedule.stages() / one->schedule.devices()),
                    cell(one->predicted.makespan), report::percent(one->predicted.bubble_makespan()),
                    cell(one->predicted.span), report::percent(one->predicted.bubble_span()),
                    text(static_cast<double>(peak(*one)) / unit.bytes), cell(one->certificate.bound),
                    report::percent(one->gap())});
  const char* of = name(all.front()->objective);
  return report::table(
      "Schedules that fit the same memory",
      {"schedule", "chunks", "makespan", "bubble by makespan", "span", "bubble by span",
       text("most memory of a device, ", unit.memory), text("lower bound of the ", of), "above the bound"},
      rows);
}

}  // namespace

std::vector<ScheduleResult> rivals(const Problem& problem, const ScheduleResult& found) {
  std::vector<ScheduleResult> result;
  for (const NamedSchedule& named : named_schedules()) {
    if (named.name == found.schedule.name) continue;
    std::optional<ScheduleResult> best;
    for (int chunks = 1; chunks <= problem.chunks(); ++chunks) {
      if (problem.chunks() % chunks != 0) continue;
      Problem in_chunks = problem;
      in_chunks.costs = joined(problem.costs, problem.devices * chunks);
      if (!named.suits(in_chunks)) continue;
      ScheduleResult one = predicted(named.make(in_chunks), in_chunks, found.objective);
      if (!best || one.length() < best->length()) best = std::move(one);
    }
    if (best) result.push_back(std::move(*best));
  }
  std::ranges::stable_sort(result, {}, &ScheduleResult::length);
  return result;
}

std::string schedule_page(const ScheduleResult& found, const std::vector<ScheduleResult>& rivals,
                          const MeasuredIn& unit) {
  std::vector<const ScheduleResult*> all{&found};
  for (const ScheduleResult& one : rivals) all.push_back(&one);
  DrawingOptions options{.width = drawing_width,
                         .unit = unit.nanoseconds,
                         .unit_name = unit.time,
                         .objective = found.objective,
                         .most_boxes = 40'000 / static_cast<int>(all.size())};
  for (const ScheduleResult* one : all) options.until = std::max(options.until, one->predicted.makespan);
  std::string drawings;
  for (const ScheduleResult* one : all) {
    options.bound = one->certificate.bound;
    drawings += "<section class=\"scroll\">\n" + svg(one->schedule, one->predicted, options) + "</section>\n";
  }
  const std::string title = text("weft-plan schedule: ", found.schedule.devices(), " devices, ",
                                 found.schedule.microbatches, " microbatches");
  return report::whole_page(
      title,
      text(
          "<h1>", title, "</h1>\n<p class=\"verdict\">", report::escaped(verdict(found, rivals, unit)),
          "</p>\n", figures(all, unit),
          "<p class=\"note\">By makespan a step lasts from the first start to the last end over all devices; "
          "by span as long as the device that is busy longest, where steps may follow each other device by "
          "device. The bound is of a schedule's own placement, and of all that were allowed where the "
          "schedule was searched for.</p>\n",
          drawings));
}

}  // namespace weft::plan
