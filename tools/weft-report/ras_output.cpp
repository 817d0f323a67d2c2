#include "ras_output.hpp"

#include <algorithm>

#include "common/findings/findings_json.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;
using ras::Answer;
using ras::RasFinding;

/// "639-640": the fewest and the most that a rank has launched; "640" where all are alike.
std::string range_of(const ras::Collective& one) {
  const auto [low, high] = std::ranges::minmax(one.levels, {}, &ras::Launched::operations);
  return low.operations == high.operations ? text(high.operations)
                                           : text(low.operations, '-', high.operations);
}

/// "AllReduce 639-640, AllGather 20"; types that nobody has launched are left out.
std::string launches_of(const ras::Communicator& one) {
  std::string all;
  for (const ras::Collective& collective : one.collectives) {
    if (collective.levels.empty()) continue;
    const std::string range = range_of(collective);
    if (range != "0") all += text(all.empty() ? "" : ", ", collective.type, ' ', range);
  }
  return all.empty() ? "-" : all;
}

/// "31 RUNNING, 1 INIT"
std::string statuses_of(const ras::Communicator& one) {
  std::string all;
  for (const ras::Standing& standing : one.statuses)
    all += text(all.empty() ? "" : ", ", standing.who.size, ' ', name(standing.status));
  return all.empty() ? "-" : all;
}

json::array processes_json(const std::vector<ras::Process>& processes) {
  json::array all;
  for (const ras::Process& one : processes)
    all.push_back({{"node", as_json_text(one.node)}, {"pid", one.pid}, {"gpus", as_json_text(one.gpus)}});
  return all;
}

}  // namespace

json::array ras_findings_json(const std::vector<RasFinding>& found) {
  json::array findings = as_json(findings_of(found));
  for (std::size_t i = 0; i < found.size(); ++i) {
    json::object& one = findings[i].as_object();
    one["communicator"] = as_json_text(found[i].communicator);
    one["ranks"] = json::array(found[i].ranks.begin(), found[i].ranks.end());
    one["processes"] = processes_json(found[i].processes);
  }
  return findings;
}

std::vector<Finding> findings_of(const std::vector<RasFinding>& found) {
  std::vector<Finding> all;
  for (const RasFinding& one : found) all.push_back(one.finding);
  return all;
}

std::string looked_at(const Answer& answer) {
  return text("the answer of NCCL ", answer.nccl, " (", answer.file,
              "): ", counted(static_cast<std::size_t>(answer.communicator_count), "communicator"),
              answer.processes == 0
                  ? std::string()
                  : text(", ", answer.processes, answer.processes == 1 ? " process" : " processes", " on ",
                         counted(static_cast<std::size_t>(answer.nodes), "node")));
}

TextTable communicators_table(const Answer& answer) {
  TextTable table{.caption = "Communicators",
                  .heading = {"communicator", "status", "launched", "ranks", "without an answer"},
                  .words = 2};
  constexpr std::size_t most = 20;
  for (const ras::Communicator& one : answer.communicators) {
    if (table.rows.size() == most) break;
    table.rows.push_back({one.name, statuses_of(one), launches_of(one), std::to_string(one.size),
                          one.unanswered.size == 0 ? "-" : std::to_string(one.unanswered.size)});
  }
  const auto listed = static_cast<int>(table.rows.size());
  if (answer.communicator_count > listed && listed > 0)
    table.note = text(answer.communicator_count - listed,
                      answer.form == ras::Form::text ? " more, whose ranks are alike" : " more");
  return table;
}

std::string to_json(const std::vector<RasFinding>& found, const Answer& answer, const std::string& next) {
  json::object said{{"from", as_json_text(answer.file)},
                    {"nccl_version", as_json_text(answer.nccl)},
                    {"form", answer.form == ras::Form::json ? "json" : "text"},
                    {"taken", as_json_text(answer.taken)},
                    {"nodes", answer.nodes},
                    {"processes", answer.processes},
                    {"communicators", answer.communicator_count},
                    {"time_outs", answer.timeouts},
                    {"unread_lines", answer.unread.size()}};
  return json::serialize(json::object{
             {"findings", ras_findings_json(found)}, {"answer", std::move(said)}, {"next", next}}) +
         "\n";
}

}  // namespace weft::report
