#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <iostream>

#include "commands.hpp"
#include "common/outputs.hpp"
#include "common/progress.hpp"
#include "core/base/strings.hpp"
#include "input.hpp"
#include "schedule_options.hpp"
#include "schedule_page.hpp"
#include "schedule_trace.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/csv.hpp"
#include "weft/pipeline/drawing.hpp"
#include "weft/pipeline/grid.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/synthesize.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::plan {
namespace {

using namespace pipeline;

/// A few bytes must not ask for the time and memory of a billion microbatches.
void expect_whole(const Schedule& schedule, const std::string& path) {
  std::int64_t actions = 0;
  for (const auto& row : schedule.rows) actions += static_cast<std::int64_t>(row.size());
  const auto refused = [&](const std::string& what) {
    return Error(ErrorKind::usage, text("'", path, "' is no whole schedule: ", what),
                 "write schedules as weft prints them");
  };
  if (schedule.device_of.empty()) throw refused("its placement has no stage");
  if (schedule.rows.empty()) throw refused("it has no row of a device");
  if (schedule.microbatches > actions)
    throw refused(text(schedule.microbatches, " microbatches in ", actions, " actions"));
}

Schedule read_schedule(const std::string& path) {
  const std::string content = read_text(path);
  if (content.starts_with("schedule")) {
    Schedule schedule = parse_schedule(content);
    expect_whole(schedule, path);
    return schedule;
  }
  const bool sends = content.find("SEND_") != std::string::npos;
  Schedule result = parse_csv(content, sends ? CsvFormat::compute_comms : CsvFormat::compute_only);
  result.name = path;
  return result;
}

ScheduleResult evaluated(const ScheduleCommand& command) {
  ScheduleResult result{.schedule = {},
                        .problem = command.problem,
                        .certificate = {},
                        .predicted = {},
                        .objective = command.objective};
  if (!command.file && command.name == "auto") {
    Synthesis found = synthesize(command.problem, {.objective = command.objective, .effort = command.effort});
    result.schedule = std::move(found.schedule);
    result.problem = std::move(found.problem);
    result.certificate = found.certificate;
    if (!holds(found.certificate, found.floor_problem, found.floor_placement))
      throw Error(ErrorKind::internal, "the bound of a synthesized schedule does not hold");
  } else {
    result.schedule = command.file ? read_schedule(*command.file) : make_named(command.name, command.problem);
    if (command.file) result.problem = problem_for(command, result.schedule);
    expect_valid(result.problem, result.schedule.device_of);
    result.certificate = lower_bound(result.problem, result.schedule.device_of, command.objective);
  }
  return result;
}

/// --release frees a part of an activation between I and W.
void expect_split(const Schedule& schedule) {
  for (const auto& row : schedule.rows) {
    if (std::ranges::find(row, ActionType::backward_weight, &Action::type) != row.end()) return;
  }
  throw Error(ErrorKind::usage,
              text("--release has no effect: ", schedule.name,
                   " has no backward for the weights alone, before which a part is freed"),
              "leave it out, or take a schedule that splits its backward, such as zb-h1");
}

std::string decimal(double value, const char* format = "%.4g") {
  std::array<char, 64> words{};
  std::snprintf(words.data(), words.size(), format, value);
  return words.data();
}

void explain(const ScheduleCommand& command, const ScheduleResult& result, std::ostream& out) {
  const auto time = [&](Nanoseconds value) {
    return decimal(static_cast<double>(value) / command.unit.nanoseconds, "%.6g") + command.unit.time;
  };
  const Prediction& predicted = result.predicted;
  if (!command.quiet)
    out << grid(result.schedule, predicted,
                {.width = command.width,
                 .unit = command.unit.nanoseconds,
                 .unit_name = command.unit.time.c_str()})
        << '\n';
  out << detail::printable(result.schedule.name) << ": " << result.schedule.devices() << " devices, "
      << result.schedule.stages() << " stages, " << result.schedule.microbatches << " microbatches\n"
      << "makespan " << time(predicted.makespan) << ", bubble "
      << decimal(predicted.bubble_makespan(), "%.4f") << "; span " << time(predicted.span) << ", bubble "
      << decimal(predicted.bubble_span(), "%.4f") << '\n'
      << "no schedule with this placement"
      << (command.name == "auto" && !command.file ? ", or another that was allowed," : "")
      << " is shorter than " << time(result.certificate.bound) << " by " << name(result.objective) << " ("
      << name(result.certificate.argument) << " of device " << result.certificate.device << "): this one is "
      << (result.gap() == 0 ? "proved shortest" : "within " + decimal(100 * result.gap(), "%.2f") + " %")
      << '\n'
      << "device     begin       end      idle, of which before first  for forward  for backward  for wire  "
         "after last      memory, "
      << command.unit.memory << '\n';
  for (std::size_t d = 0; d < predicted.devices.size(); ++d) {
    const DevicePrediction& one = predicted.devices[d];
    const auto cell = [&](Nanoseconds value, std::size_t width) {
      const std::string word = decimal(static_cast<double>(value) / command.unit.nanoseconds);
      return std::string(word.size() < width ? width - word.size() : 1, ' ') + word;
    };
    out << "  " << d << std::string(d < 10 ? 2 : 1, ' ') << cell(one.begin, 11) << cell(one.end, 10)
        << cell(one.idle.total(), 10) << cell(one.idle.before_first, 23) << cell(one.idle.for_forward, 13)
        << cell(one.idle.for_backward, 14) << cell(one.idle.for_wire, 10) << cell(one.idle.after_last, 12)
        << "      " << decimal(static_cast<double>(one.peak_memory) / command.unit.bytes, "%.6g") << '\n';
  }
}

std::string to_json(const ScheduleCommand& command, const ScheduleResult& result) {
  boost::json::array memory;
  for (const DevicePrediction& one : result.predicted.devices)
    memory.push_back(static_cast<double>(one.peak_memory) / command.unit.bytes);
  const auto time = [&](Nanoseconds value) { return static_cast<double>(value) / command.unit.nanoseconds; };
  boost::json::object all{{"schedule", result.schedule.name},
                          {"objective", name(result.objective)},
                          {"makespan", time(result.predicted.makespan)},
                          {"span", time(result.predicted.span)},
                          {"bubble_makespan", result.predicted.bubble_makespan()},
                          {"bubble_span", result.predicted.bubble_span()},
                          {"peak_memory", std::move(memory)},
                          {"lower_bound", time(result.certificate.bound)},
                          {"gap", result.gap()}};
  if (!command.file && command.name == "auto") {
    all["effort"] = command.effort;
    all["chunks_allowed"] = command.problem.chunks();
  }
  return boost::json::serialize(all) + "\n";
}

std::string drawn(const ScheduleCommand& command, const ScheduleResult& result) {
  return svg(result.schedule, result.predicted,
             {.unit = command.unit.nanoseconds,
              .unit_name = command.unit.time,
              .bound = result.certificate.bound,
              .objective = result.objective});
}

tool::Contents contents(const ScheduleCommand& command, const ScheduleResult& all) {
  tool::Contents result;
  if (command.text) result["--text"] = text(all.schedule);
  if (command.csv) result["--csv"] = to_csv(all.schedule, CsvFormat::compute_only);
  if (command.json) result["--json"] = to_json(command, all);
  if (command.svg) result["--svg"] = drawn(command, all);
  if (command.compare) {
    const Problem& asked = command.file ? all.problem : command.problem;
    result["--compare"] = schedule_page(all, rivals(asked, all), command.unit);
  }
  if (command.trace) {
    const double unit = command.has_profile ? 1e3 : command.unit.nanoseconds / 1e3;
    result["--trace"] = schedule_trace(all.schedule, all.problem, all.predicted, unit);
  }
  return result;
}

}  // namespace

int run_schedule(const std::vector<std::string>& arguments) {
  const ScheduleCommand command = parse_schedule_command(arguments);
  if (command.help) {
    std::cout << schedule_help();
    return 0;
  }
  tool::Outputs outputs("weft-plan");
  const std::initializer_list<std::pair<const char*, std::optional<std::string>>> files = {
      {"--json", command.json}, {"--text", command.text},   {"--csv", command.csv},
      {"--svg", command.svg},   {"--trace", command.trace}, {"--compare", command.compare}};
  for (const auto& [option, path] : files) outputs.open(option, path);
  tool::Progress progress("weft-plan", tool::Quiet(command.quiet));
  progress.prepare(command.name == "auto" && !command.file ? "searching for a schedule" : "the schedule");
  ScheduleResult all = evaluated(command);
  if (command.releases && (command.file || command.name != "auto")) expect_split(all.schedule);
  if (const auto fault = find_fault(all.schedule, all.problem)) {
    progress.end();
    outputs.people() << grid(all.schedule, {.width = command.width, .fault = &*fault}) << *fault << '\n';
    return 1;
  }
  all.predicted = simulate(all.schedule, all.problem, Keep::times);
  progress.prepare("the pages");
  const tool::Contents written = contents(command, all);
  progress.end();
  explain(command, all, outputs.people());
  outputs.write(written);
  return 0;
}

}  // namespace weft::plan
