#include "bandwidth_output.hpp"

#include <algorithm>

#include "common/page/markup.hpp"
#include "weft-report/nccl/judge.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;
using bandwidth::Judged;

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

TextTable measured(const std::vector<Judged>& tables) {
  TextTable table{.caption = "Bandwidth",
                  .heading = {"operation", "bound by", "falls off at", "ranks", "nodes", "largest", "busbw",
                              "bound", "reached", "wrong"},
                  .words = 2,
                  .note =
                      "busbw and bound are GB/s, at the largest size. The bound is what links allow, of "
                      "which the logs or the GPU's name tell."};
  for (const Judged& one : tables) {
    const bandwidth::Speed& speed = one.speed;
    table.rows.push_back(
        {one.op.empty() ? "(not stated)" : one.op, std::string(name(speed.bound.limit)), falls_at(speed),
         number(one.shape.ranks), number(one.shape.nodes), bandwidth::size_text(speed.bytes),
         fixed(speed.busbw, 2), known(speed.bound.busbw, 1),
         speed.fraction > 0 ? fixed(100 * speed.fraction, 0) + " %" : "-", std::to_string(speed.wrong)});
  }
  return table;
}

/// Each cost of the TUNING table that is not 0.
template <class Take>
void each_cost(const bandwidth::TuningTable& table, Take take) {
  for (const std::size_t at : table.known) {
    const bandwidth::Cost& cost = table.costs.costs[at];
    if (cost.bandwidth > 0)
      take(static_cast<bandwidth::Collective>(at / (bandwidth::algorithms * bandwidth::protocols)),
           static_cast<bandwidth::Algorithm>(at / bandwidth::protocols % bandwidth::algorithms),
           static_cast<bandwidth::Protocol>(at % bandwidth::protocols), cost);
  }
}

TextTable stated_costs(const bandwidth::TuningTable& costs) {
  TextTable table{.caption = "NCCL's costs",
                  .heading = {"collective", "algorithm", "protocol", "us", "GB/s"},
                  .words = 2,
                  .note = "Of all_reduce, as the log states them."};
  each_cost(costs, [&](auto collective, auto algorithm, auto protocol, const bandwidth::Cost& cost) {
    if (collective == bandwidth::Collective::all_reduce)
      table.rows.push_back({std::string(name(collective)), std::string(name(algorithm)),
                            std::string(name(protocol)), fixed(cost.latency, 1), fixed(cost.bandwidth, 1)});
  });
  return table;
}

/// Sizes with one choice are one row.
TextTable choices_made(const std::vector<bandwidth::SizeChoice>& choices) {
  TextTable table{.caption = "NCCL's choices",
                  .heading = {"sizes", "choice", "remark", "us expected", "us measured"},
                  .words = 2,
                  .note = "Times are of the last size of a row."};
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
    table.rows.push_back({end - i > 1 ? from + " to " + bandwidth::size_text(last.bytes) : from,
                          text(name(used(last).algorithm), '/', name(used(last).protocol)),
                          last.contradicts ? text("slow: ", name(other.algorithm), '/', name(other.protocol),
                                                  " might take ", fixed(other.microseconds, 1))
                                           : "-",
                          fixed(used(last).microseconds, 1), fixed(last.measured, 1)});
    i = end;
  }
  return table;
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

std::vector<TextTable> bandwidth_tables(const nccl::Job& job) {
  std::vector tables{measured(bandwidth::judge(job))};
  if (!job.tuning) return tables;
  tables.push_back(stated_costs(job.tuning));
  tables.push_back(choices_made(bandwidth::choices_by_size(job)));
  return tables;
}

void add_bandwidth(const nccl::Job& job, json::object& into) {
  json::array tables;
  for (const Judged& one : bandwidth::judge(job)) tables.push_back(table_json(one));
  into["bandwidth"] = std::move(tables);
  if (!job.tuning) return;
  json::array costs;
  each_cost(job.tuning, [&](auto collective, auto algorithm, auto protocol, const bandwidth::Cost& cost) {
    costs.push_back({{"collective", std::string(name(collective))},
                     {"algorithm", std::string(name(algorithm))},
                     {"protocol", std::string(name(protocol))},
                     {"latency_us", cost.latency},
                     {"bandwidth", cost.bandwidth}});
  });
  into["costs"] = std::move(costs);
  json::array choices;
  for (const bandwidth::SizeChoice& one : bandwidth::choices_by_size(job))
    choices.push_back(choice_json(one));
  into["choices"] = std::move(choices);
}

}  // namespace weft::report
