#include "tune_print.hpp"

#include <boost/json.hpp>
#include <cmath>
#include <ostream>

#include "common/page/markup.hpp"
#include "print.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;

/// JSON has no infinities.
json::value ratio_of(double log) {
  return std::isfinite(log) ? json::value(std::exp(log)) : json::value(nullptr);
}

json::object as_json(const tuning::Interval& ratio) {
  return {{"least", ratio_of(ratio.least)},
          {"middle", ratio_of(ratio.middle)},
          {"greatest", ratio_of(ratio.greatest)}};
}

json::array as_json(const std::vector<std::string>& words) {
  json::array all;
  for (const std::string& one : words) all.push_back(as_json_text(one));
  return all;
}

json::object as_json(const tuning::Environment& variables) {
  json::object all;
  for (const auto& [name, value] : variables) all[name] = as_json_text(value);
  return all;
}

json::object as_json(const tuning::Setting& setting, const TuneState& state) {
  json::array ranges;
  for (const tuning::Range& range : setting.ranges)
    ranges.push_back(
        {{"from_bytes", range.from_bytes},
         {"algorithm", range.algorithm.empty() ? json::value(nullptr) : json::value(range.algorithm)}});
  return {
      {"variables", as_json(setting.variables)},
      {"ranges", std::move(ranges)},
      {"environment", as_json(environment_of(setting, state.facts, state.places))},
      {"table", setting.ranges.empty() ? json::value(nullptr) : json::value(table_of(setting, state.facts))}};
}

json::object as_json(const tuning::Space& space) {
  json::object variables;
  for (const tuning::Variable& one : space.variables) variables[one.name] = as_json(one.values);
  return {{"variables", std::move(variables)},
          {"algorithms", as_json(space.algorithms)},
          {"settings", space.size()}};
}

std::vector<std::string> row_of(const tuning::Step& step) {
  const auto ratio = [](double log) {
    return std::isfinite(log) ? fixed(std::exp(log), 3) : std::string("?");
  };
  return {one_line(step.change), ratio(step.ratio.middle),
          text(ratio(step.ratio.least), " to ", ratio(step.ratio.greatest)), std::to_string(step.pairs),
          step.kept ? "yes" : "no"};
}

}  // namespace

std::string tune_heading(const TuneState& state, int most_trials, double seconds_of_run) {
  const tuning::Facts& facts = state.facts;
  return text(facts.collective, " on ", facts.ranks, facts.ranks == 1 ? " rank" : " ranks",
              facts.network.empty() ? "" : ", " + facts.network, ": ", state.space.size(),
              " settings; at most ", most_trials, " runs of ", fixed(seconds_of_run, 1), " s\n");
}

void print_tuning(const TuneState& state, std::ostream& out) {
  const tuning::Tuning& tuning = state.tuning;
  for (const std::string& note : tuning.notes) out << "note: " << one_line(note) << '\n';
  if (!tuning.steps.empty()) {
    std::vector<std::vector<std::string>> rows{{"change", "time", "95 % interval", "pairs", "kept"}};
    for (const tuning::Step& step : tuning.steps) rows.push_back(row_of(step));
    print_table(rows, out);
  }
  const std::string runs =
      text(tuning.trials, tuning.trials == 1 ? " run" : " runs", " in ", fixed(state.seconds, 0), " s");
  if (tuning.kept == tuning::Setting())
    out << "after " << runs << " nothing has shown a gain: what there is stays\n";
  else
    out << "kept after " << runs << ": " << one_line(tuning.kept.text()) << '\n';
}

std::string tuning_json(const TuneState& state, tool::Partial partial) {
  json::array steps;
  for (const tuning::Step& step : state.tuning.steps)
    steps.push_back({{"change", step.change},
                     {"ratio", as_json(step.ratio)},
                     {"pairs", step.pairs},
                     {"kept", step.kept}});
  json::object all{{"command", as_json(state.command.words)},
                   {"collective", state.facts.collective},
                   {"ranks", state.facts.ranks},
                   {"network", state.facts.network},
                   {"space", as_json(state.space)},
                   {"kept", as_json(state.tuning.kept, state)},
                   {"steps", std::move(steps)},
                   {"notes", as_json(state.tuning.notes)},
                   {"trials", state.tuning.trials},
                   {"pairs", state.pairs},
                   {"seconds", state.seconds},
                   {"complete", state.tuning.complete}};
  if (partial == tool::Partial::yes) all["partial"] = true;
  return json::serialize(all) + "\n";
}

}  // namespace weft::report
