#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "commands.hpp"
#include "core/files/input_file.hpp"
#include "env_options.hpp"
#include "print.hpp"
#include "weft-report/env/lint.hpp"
#include "weft-report/env/variables.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;

/// Adds the settings of a configuration file that NCCL would read. One that is not there, or has nothing in it, sets nothing.
void add_configuration(const std::string& file, std::vector<Settings>& all) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return;
  const std::string content = detail::read_input(file, file);
  if (!content.empty()) all.push_back(read_settings(content, file, Lines::configuration));
}

Finding missing_configuration(const Setting& setting) {
  return {.cause = "conf-file-missing",
          .severity = Severity::warning,
          .confidence = 0.95,
          .verdict = text(shown(setting), ": there is no such file, and NCCL says nothing of it"),
          .evidence = {evidence_of(setting)},
          .fix = "name a file that is there, by a path without ~"};
}

/// NCCL_CONF_FILE, or else .nccl.conf in the home folder, and below it /etc/nccl.conf.
Settings settings_here() {
  std::vector<std::string> lines;
  for (char** at = environ; *at != nullptr; ++at) lines.emplace_back(*at);
  Settings own = settings_of_process(lines, {});
  const Setting* named = own.find("NCCL_CONF_FILE");
  const Setting* home = own.find("HOME");
  std::vector<Settings> files;
  if (named != nullptr && !named->value.empty())
    add_configuration(named->value, files);
  else if (home != nullptr)
    add_configuration(home->value + "/.nccl.conf", files);
  add_configuration("/etc/nccl.conf", files);
  Settings all = settings_of_process(lines, files);
  std::error_code error;
  if (named != nullptr && !named->value.empty() && !std::filesystem::exists(named->value, error))
    all.remarks.push_back(missing_configuration(*named));
  return all;
}

std::vector<Settings> read_all(const std::vector<std::string>& files) {
  if (files.empty()) return {settings_here()};
  std::vector<Settings> ranks;
  std::set<std::string> seen;
  for (const std::string& file : files) {
    if (!seen.insert(file).second)
      throw Error(ErrorKind::usage, text(file, ": is given twice"), "give one file for each rank or host");
    const std::string path = file == "-" ? "/dev/stdin" : file;
    ranks.push_back(read_settings(detail::read_input(path, file, {.source = detail::Source::file_or_pipe}),
                                  file, lines_of(file)));
  }
  return ranks;
}

/// "2 settings of NCCL in 2 files, judged for NCCL 2.30.7"
std::string looked_at(const std::vector<Settings>& ranks, const NcclVersion& version) {
  std::size_t settings = 0;
  for (const Settings& one : ranks) settings += static_cast<std::size_t>(count_settings(one));
  return text(counted(settings, "setting"), " of NCCL",
              ranks.size() > 1 ? text(" in ", ranks.size(), " files") : std::string(), ", judged for NCCL ",
              name(version));
}

void print_verdict(const std::vector<Finding>& findings, const std::string& looked_at, std::ostream& out) {
  const auto of = [&](Severity severity) {
    return static_cast<std::size_t>(std::ranges::count(findings, severity, &Finding::severity));
  };
  out << (findings.empty()
              ? std::string("nothing wrong")
              : text(of(Severity::critical), " critical, ", counted(of(Severity::warning), "warning"), ", ",
                     counted(of(Severity::notice), "notice")))
      << ": " << one_line(looked_at) << "\n\n";
}

bool is_listed(const Setting& setting) {
  return setting.name.starts_with("NCCL_") || find_variable(setting.name) != nullptr;
}

/// The settings of one rank, and where each comes from.
TextTable settings_table(const Settings& settings) {
  TextTable table{.caption = "Settings", .heading = {"setting", "from"}, .words = 1};
  for (const auto& [name, setting] : settings.values) {
    if (is_listed(setting))
      table.rows.push_back(
          {shown(setting), setting.line == 0 ? setting.file : text(setting.file, ", line ", setting.line)});
  }
  return table;
}

json::object settings_json(const Settings& settings) {
  json::array all;
  for (const auto& [name, setting] : settings.values) {
    if (!is_listed(setting)) continue;
    const std::string words = shown(setting);
    all.push_back({{"name", name},
                   {"value", words.substr(std::min(words.size(), name.size() + 1))},
                   {"file", setting.file},
                   {"line", setting.line}});
  }
  return {{"file", settings.who}, {"settings", std::move(all)}};
}

std::string to_json(const std::vector<Finding>& findings, const std::vector<Settings>& ranks,
                    const NcclVersion& version) {
  json::array all;
  for (const Settings& one : ranks) all.push_back(settings_json(one));
  return json::serialize(json::object{
             {"findings", as_json(findings)}, {"nccl", name(version)}, {"ranks", std::move(all)}}) +
         "\n";
}

}  // namespace

int env_command(const std::vector<std::string>& arguments) {
  const EnvOptions options = parse_env_options(arguments);
  if (options.help) {
    std::cout << env_help();
    return 0;
  }
  tool::Outputs outputs("weft-report");
  open(options.outputs, outputs);
  const std::vector<Settings> ranks = read_all(options.files);
  Report report{.subject = "settings of NCCL",
                .looked_at = looked_at(ranks, options.version),
                .findings = lint(ranks, options.version)};
  if (ranks.size() == 1) report.tables = {settings_table(ranks.front())};
  std::ostream& out = outputs.people();
  print_verdict(report.findings, report.looked_at, out);
  print(report.findings, out);
  for (const TextTable& table : report.tables) print(table, out);
  write(outputs, report, [&] { return to_json(report.findings, ranks, options.version); });
  return exit_status(report.findings);
}

}  // namespace weft::report
