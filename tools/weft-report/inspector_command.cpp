#include <algorithm>
#include <iostream>

#include "bandwidth_output.hpp"
#include "commands.hpp"
#include "inspector_options.hpp"
#include "print.hpp"
#include "read_logs.hpp"
#include "weft-report/inspector/folder.hpp"
#include "weft-report/inspector/inspector.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft-report/output/run_sections.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;
using inspector::Communicator;
using inspector::Conclusions;
using inspector::Job;

constexpr std::size_t most_notes = 10;

json::value known_or_null(double value) {
  return value > 0 ? json::value(value) : json::value(nullptr);
}

json::array communicators_json(const Job& job) {
  json::array all;
  for (const Communicator& one : job.communicators)
    all.push_back({{"id", as_json_text(one.id)},
                   {"name", as_json_text(one.name)},
                   {"ranks", one.ranks},
                   {"nodes", one.nodes > 0 ? json::value(one.nodes) : json::value(nullptr)},
                   {"ranks_seen", one.members.size()},
                   {"records", one.records()}});
  return all;
}

json::value change_json(const inspector::SizeRow& row) {
  if (!row.change) return nullptr;
  return {{"since", row.change->number},
          {"when", known_or_null(row.change->when)},
          {"before_seconds", row.change->before / 1e6},
          {"after_seconds", row.change->after / 1e6}};
}

json::array operations_json(const Job& job, const Conclusions& all) {
  json::array rows;
  for (const inspector::SizeRow& row : all.rows)
    rows.push_back({{"communicator", as_json_text(job.communicators[row.communicator].id)},
                    {"op", std::string(inspector::name(row.kind))},
                    {"bytes", row.bytes},
                    {"operations", row.operations},
                    {"records", row.records},
                    {"seconds", {{"median", row.median_us / 1e6}, {"p99", row.p99_us / 1e6}}},
                    {"algbw", row.algbw},
                    {"busbw", known_or_null(row.busbw)},
                    {"change", change_json(row)}});
  return rows;
}

json::array ranks_json(const Job& job, const Conclusions& all) {
  json::array rows;
  for (std::size_t at = 0; at < job.communicators.size(); ++at) {
    const Communicator& one = job.communicators[at];
    for (const inspector::Compared& rank : all.comparisons[at].ranks) {
      const inspector::Member& member = one.members[rank.member];
      rows.push_back({{"communicator", as_json_text(one.id)},
                      {"rank", member.rank},
                      {"host", as_json_text(member.host)},
                      {"pid", member.pid},
                      {"share", rank.share},
                      {"last", rank.shortest},
                      {"operations", rank.operations}});
    }
  }
  return rows;
}

json::array stragglers_json(const Job& job, const Conclusions& all) {
  json::array rows;
  for (std::size_t at = 0; at < job.communicators.size(); ++at) {
    const Communicator& one = job.communicators[at];
    for (const inspector::Straggler& straggler : all.comparisons[at].stragglers) {
      const inspector::Member& member = one.members[straggler.member];
      rows.push_back({{"communicator", as_json_text(one.id)},
                      {"rank", member.rank},
                      {"host", as_json_text(member.host)},
                      {"pid", member.pid},
                      {"comes_last", straggler.last()},
                      {"share", straggler.share},
                      {"seconds", straggler.seconds},
                      {"since",
                       {{"op", std::string(inspector::name(straggler.kind))},
                        {"number", straggler.since},
                        {"when", known_or_null(straggler.when)},
                        {"from_the_start", straggler.from_the_start}}}});
    }
  }
  return rows;
}

json::array metrics_json(const Job& job) {
  json::array rows;
  for (const inspector::Mean& mean : job.means)
    rows.push_back({{"communicator", as_json_text(mean.communicator)},
                    {"op", std::string(inspector::name(mean.kind))},
                    {"bytes", mean.bytes},
                    {"host", as_json_text(mean.host)},
                    {"gpu", as_json_text(mean.gpu)},
                    {"algorithm", as_json_text(mean.algorithm)},
                    {"ranks", mean.ranks},
                    {"seconds", known_or_null(mean.microseconds / 1e6)},
                    {"busbw", known_or_null(mean.busbw)}});
  return rows;
}

std::string all_as_json(const Job& job, const Conclusions& all) {
  json::array findings = as_json(all.plain());
  for (std::size_t i = 0; i < all.findings.size(); ++i) {
    json::object& one = findings[i].as_object();
    one["communicator"] = as_json_text(all.findings[i].communicator);
    one["ranks"] = json::array(all.findings[i].ranks.begin(), all.findings[i].ranks.end());
  }
  json::array notes;
  for (const std::string& note : job.notes) notes.push_back(as_json_text(note));
  json::object result{
      {"findings", std::move(findings)},
      {"files", {{"read", job.files}, {"notes", std::move(notes)}}},
      {"records", {{"read", job.records}, {"compared", job.records - job.left_out}, {"lost", job.lost}}},
      {"communicators", communicators_json(job)},
      {"stragglers", stragglers_json(job, all)},
      {"operations", operations_json(job, all)},
      {"ranks", ranks_json(job, all)},
      {"metrics", metrics_json(job)}};
  add_bandwidth(all.judged, result);
  return json::serialize(result) + "\n";
}

std::string what_was_read(const Job& job) {
  std::string words =
      text(counted(job.records, "record"), " of ", counted(job.communicators.size(), "communicator"), " in ",
           counted(job.files, "file"));
  if (!job.means.empty()) words += text(", ", counted(job.means.size(), "mean"), " of its metrics");
  if (job.left_out > 0)
    words +=
        text(", of which ", job.records - job.left_out, " were compared: the same operations of every rank");
  return words;
}

void print_notes(const Job& job) {
  for (std::size_t i = 0; i < std::min(job.notes.size(), most_notes); ++i)
    std::cerr << text("weft-report: ", one_line(job.notes[i]), "\n");
  if (job.notes.size() > most_notes)
    std::cerr << text("weft-report: ", job.notes.size() - most_notes,
                      " more files like these; --json names all\n");
}

}  // namespace

int inspector_command(const std::vector<std::string>& arguments) {
  const InspectorOptions options = parse_inspector_options(arguments);
  if (options.help) {
    std::cout << inspector_help();
    return 0;
  }
  tool::Outputs outputs("weft-report");
  open(options.files, outputs);
  const Job job = inspector::read_folder(options.folder);
  print_notes(job);
  nccl::Job beside;
  if (!options.beside.empty()) beside = read_logs(options.beside).log.job();
  const Conclusions all = inspector::conclude(job, std::move(beside), options.gpu);
  Report report{.subject = "NCCL's Inspector",
                .looked_at = what_was_read(job),
                .findings = all.plain(),
                .tables = inspector::tables(job, all)};
  std::ostream& out = outputs.people();
  out << (report.findings.empty() ? text("nothing wrong is seen in ", one_line(report.looked_at), "\n\n")
                                  : text(tally(report.findings), " in ", one_line(report.looked_at), "\n\n"));
  print(report.findings, out);
  for (const TextTable& table : report.tables) print(table, out);
  for (const TextTable& table : bandwidth_tables(all.judged)) print(table, out);
  write(
      outputs, report, [&] { return all_as_json(job, all); },
      [&](Report& page) {
        page.sections = inspector::sections(job, all);
        if (!all.judged.documents.tables.empty()) page.sections.push_back(bandwidth_reached(all.judged));
      });
  return exit_status(report.findings);
}

}  // namespace weft::report
