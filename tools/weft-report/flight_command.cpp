#include <algorithm>
#include <iostream>

#include "commands.hpp"
#include "options.hpp"
#include "print.hpp"
#include "weft-report/flight/flight.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft-report/torch_records/dump.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;

template <class Visit>
void each_last(const FlightRecord& record, Visit&& visit) {
  for (const FlightCommunicator& communicator : record.communicators) {
    for (const Lane lane : {Lane::host, Lane::device, Lane::group}) {
      if (!communicator.on(lane).empty()) visit(communicator, lane, communicator.on(lane).back());
    }
  }
}

std::string kind_of(Lane lane, const FlightOperation& operation) {
  return std::string(lane == Lane::group && !operation.details ? "send/receive group" : operation.called());
}

std::string steps_of(const FlightRecord& record) {
  if (record.progress.size() == 1) return std::to_string(record.progress.front().step);
  std::string result;
  for (const FlightProgress& one : record.progress)
    result += text(result.empty() ? "" : ", ", one.track, ' ', one.step);
  return result.empty() ? "-" : result;
}

std::string last_of(const FlightRecord& record) {
  std::string result;
  each_last(record, [&](const FlightCommunicator& communicator, Lane lane, const FlightOperation& last) {
    result += text(result.empty() ? "" : "; ", communicator.name, ' ', name(lane), ": ", kind_of(lane, last),
                   " #", last.number, ' ', name(last.state));
  });
  return result.empty() ? "-" : result;
}

std::vector<std::string> row_of(const FlightRecord& record) {
  const std::string error =
      record.error ? text(name(record.error->kind), ": ", record.error->message) : std::string("-");
  return {std::to_string(record.rank),
          record.host.empty() ? "-" : record.host,
          record.reason,
          steps_of(record),
          last_of(record),
          error};
}

TextTable ranks_table(const std::vector<FlightRecord>& records) {
  TextTable table{.caption = "Ranks",
                  .heading = {"rank", "host", "reason", "step", "last operations", "error"},
                  .words = 5};
  for (const FlightRecord& record : records) table.rows.push_back(row_of(record));
  return table;
}

json::value error_json(const FlightRecord& record) {
  if (!record.error) return nullptr;
  return {{"kind", name(record.error->kind)},
          {"message", record.error->message},
          {"operation", record.error->operation},
          {"number", record.error->number}};
}

json::object rank_json(const FlightRecord& record) {
  json::array last;
  each_last(record, [&](const FlightCommunicator& communicator, Lane lane, const FlightOperation& one) {
    last.push_back({{"communicator", communicator.name},
                    {"lane", std::string(name(lane))},
                    {"number", one.number},
                    {"kind", kind_of(lane, one)},
                    {"state", std::string(name(one.state))}});
  });
  // With several tracks, the one with the highest step.
  const auto furthest = std::ranges::max_element(record.progress, {}, &FlightProgress::step);
  return {{"rank", record.rank},
          {"host", record.host},
          {"pid", record.pid},
          {"step", furthest == record.progress.end() ? json::value(nullptr) : json::value(furthest->step)},
          {"last", std::move(last)},
          {"error", error_json(record)}};
}

std::string to_json(const std::vector<Finding>& findings, const std::vector<FlightRecord>& records) {
  json::array ranks;
  for (const FlightRecord& record : records) ranks.push_back(rank_json(record));
  return json::serialize(json::object{{"findings", as_json(findings)}, {"ranks", std::move(ranks)}}) + "\n";
}

}  // namespace

int flight_command(const std::vector<std::string>& arguments) {
  const FlightOptions options = parse_flight_options(arguments);
  if (options.help) {
    std::cout << flight_help();
    return 0;
  }
  tool::Outputs outputs("weft-report");
  open(options.files, outputs);
  std::vector<FlightRecord> records = torch_records::read_dumps(options.folder);
  const bool of_torch = !records.empty();
  if (!of_torch) records = read_flights(options.folder);
  const Report report{.subject = "flight records",
                      .looked_at = counted(records.size(), "flight record"),
                      .findings = of_torch ? torch_records::examine_torch(records) : examine(records),
                      .tables = {ranks_table(records)}};
  std::ostream& out = outputs.people();
  print(report.findings, out);
  if (report.findings.empty()) out << "nothing wrong: " << one_line(progress_summary(records)) << "\n\n";
  print(report.tables.front(), out);
  write(outputs, report, [&] { return to_json(report.findings, records); });
  return exit_status(report.findings);
}

}  // namespace weft::report
