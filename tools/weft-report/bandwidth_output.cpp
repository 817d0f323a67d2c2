#include "bandwidth_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "print.hpp"
#include "report/bandwidth/judge.hpp"
#include "report/output/json.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;
using bandwidth::Judged;
using Rows = std::vector<std::vector<std::string>>;

std::string fixed(double value, int digits) {
  char words[64];
  std::snprintf(words, sizeof words, "%.*f", digits, value);
  return words;
}
std::string known(double value, int digits) {
  return value > 0 ? fixed(value, digits) : "-";
}
std::string number(std::int64_t value) {
  return value > 0 ? std::to_string(value) : "-";
}

std::string falls_at(const bandwidth::Speed& speed) {
  std::string sizes;
  for (const bandwidth::FallOff& fall : speed.falls) {
    if (&fall - speed.falls.data() == 3) return sizes + ", ...";
    sizes += (sizes.empty() ? "" : ", ") + bandwidth::size_text(fall.bytes);
  }
  return sizes.empty() ? "-" : sizes;
}

void print_tables(const std::vector<Judged>& tables, std::ostream& out) {
  Rows rows{
      {"operation", "ranks", "nodes", "largest", "busbw", "bound", "by", "reached", "falls off at", "wrong"}};
  for (const Judged& one : tables) {
    const bandwidth::Speed& speed = one.speed;
    rows.push_back({one.op.empty() ? "(not stated)" : one_line(one.op), number(one.shape.ranks),
                    number(one.shape.nodes), bandwidth::size_text(speed.bytes), fixed(speed.busbw, 2),
                    known(speed.bound.busbw, 1), std::string(name(speed.bound.limit)),
                    speed.fraction > 0 ? fixed(100 * speed.fraction, 0) + " %" : "-", falls_at(speed),
                    std::to_string(speed.wrong)});
  }
  out << "Bandwidth\n";
  print_table(rows, out);
  out << "\nbusbw and bound are GB/s, at the largest size. The bound is what links allow, of which the logs "
         "or the GPU's name tell.\n\n";
}

void print_costs(const std::vector<bandwidth::CostPair>& costs, std::ostream& out) {
  Rows rows{{"collective", "algorithm", "protocol", "us", "GB/s", "model us", "model GB/s"}};
  const auto agree = std::ranges::count(costs, true, &bandwidth::CostPair::agree);
  for (const bandwidth::CostPair& one : costs) {
    if (one.collective == bandwidth::Collective::all_reduce || !one.agree)
      rows.push_back({std::string(name(one.collective)), std::string(name(one.algorithm)),
                      std::string(name(one.protocol)), fixed(one.log.latency, 1), fixed(one.log.bandwidth, 1),
                      fixed(one.model.latency, 1), fixed(one.model.bandwidth, 1)});
  }
  out << "NCCL's costs, as the log states them and as the model gives them: " << agree << " of "
      << costs.size() << " agree\n";
  print_table(rows, out);
  out << '\n';
}

/// Sizes with one choice are one row.
void print_choices(const std::vector<bandwidth::SizeChoice>& choices, std::ostream& out) {
  Rows rows{{"sizes", "NCCL's choice", "us expected", "us measured", "remark"}};
  const auto used = [](const bandwidth::SizeChoice& one) { return one.chosen ? *one.chosen : one.predicted; };
  for (std::size_t i = 0; i < choices.size();) {
    std::size_t end = i + 1;
    while (end < choices.size() && used(choices[end]).algorithm == used(choices[i]).algorithm &&
           used(choices[end]).protocol == used(choices[i]).protocol &&
           choices[end].contradicts == choices[i].contradicts)
      ++end;
    const bandwidth::SizeChoice& last = choices[end - 1];
    const std::string from = bandwidth::size_text(choices[i].bytes);
    const bandwidth::Choice& other = last.other;
    rows.push_back({end - i > 1 ? from + " to " + bandwidth::size_text(last.bytes) : from,
                    text(name(used(last).algorithm), '/', name(used(last).protocol)),
                    fixed(used(last).microseconds, 1), fixed(last.measured, 1),
                    last.contradicts ? text("slow: ", name(other.algorithm), '/', name(other.protocol),
                                            " might take ", fixed(other.microseconds, 1))
                                     : "-"});
    i = end;
  }
  print_table(rows, out);
  out << "\nTimes are of the last size of a row.\n\n";
}

json::array falls_json(const bandwidth::Speed& speed) {
  json::array all;
  for (const bandwidth::FallOff& fall : speed.falls)
    all.push_back({{"bytes", fall.bytes},
                   {"algbw", fall.algbw},
                   {"before_bytes", fall.before_bytes},
                   {"before", fall.before},
                   {"recovers", fall.recovers}});
  return all;
}
json::value or_null(double value) {
  return value > 0 ? json::value(value) : json::value(nullptr);
}

json::object table_json(const Judged& one) {
  const bandwidth::Speed& speed = one.speed;
  return {{"op", as_json_text(one.op)},
          {"ranks", one.shape.ranks},
          {"nodes", one.shape.nodes},
          {"device", as_json_text(one.table->device)},
          {"file", as_json_text(one.table->heading.file)},
          {"line", one.table->heading.line},
          {"bytes", speed.bytes},
          {"busbw", speed.busbw},
          {"bound", or_null(speed.bound.busbw)},
          {"limit", std::string(name(speed.bound.limit))},
          {"planned", or_null(speed.bound.planned)},
          {"fraction", or_null(speed.fraction)},
          {"latency_us", or_null(speed.floor_us)},
          {"wrong", speed.wrong},
          {"falls", falls_json(speed)}};
}

json::object cost_json(const bandwidth::CostPair& one) {
  return {{"collective", std::string(name(one.collective))},
          {"algorithm", std::string(name(one.algorithm))},
          {"protocol", std::string(name(one.protocol))},
          {"latency_us", one.log.latency},
          {"bandwidth", one.log.bandwidth},
          {"model_latency_us", one.model.latency},
          {"model_bandwidth", one.model.bandwidth},
          {"agree", one.agree}};
}
json::object choice_json(const bandwidth::SizeChoice& one) {
  const bandwidth::Choice& used = one.chosen ? *one.chosen : one.predicted;
  return {{"bytes", one.bytes},
          {"algorithm", std::string(name(used.algorithm))},
          {"protocol", std::string(name(used.protocol))},
          {"from_log", one.chosen.has_value()},
          {"expected_us", or_null(used.microseconds)},
          {"measured_us", one.measured},
          {"contradicts", one.contradicts}};
}

}  // namespace

void print_bandwidth(const nccl::Job& job, std::ostream& out) {
  const std::vector<Judged> tables = bandwidth::judge(job);
  if (!tables.empty()) print_tables(tables, out);
  const std::vector<bandwidth::CostPair> costs = bandwidth::compare_costs(job);
  if (!costs.empty()) print_costs(costs, out);
  const std::vector<bandwidth::SizeChoice> choices = bandwidth::choices_by_size(job);
  if (job.tuning && !choices.empty()) print_choices(choices, out);
}

void add_bandwidth(const nccl::Job& job, json::object& into) {
  json::array tables;
  for (const Judged& one : bandwidth::judge(job)) tables.push_back(table_json(one));
  into["bandwidth"] = std::move(tables);
  if (!job.tuning) return;
  json::array costs;
  for (const bandwidth::CostPair& one : bandwidth::compare_costs(job)) costs.push_back(cost_json(one));
  into["costs"] = std::move(costs);
  json::array choices;
  for (const bandwidth::SizeChoice& one : bandwidth::choices_by_size(job))
    choices.push_back(choice_json(one));
  into["choices"] = std::move(choices);
}

}  // namespace weft::report
