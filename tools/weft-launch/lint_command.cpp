#include "lint_command.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <iostream>
#include <set>

#include "common/command_line.hpp"
#include "common/findings/findings_json.hpp"
#include "common/findings/report.hpp"
#include "common/findings/sarif.hpp"
#include "common/outputs.hpp"
#include "core/files/input_file.hpp"
#include "weft-launch/manifest/lint.hpp"
#include "weft/core/error.hpp"
#include "weft/core/version.hpp"

namespace weft::launch {
namespace {

namespace json = boost::json;
namespace po = boost::program_options;
using report::Finding;
using report::Severity;

struct LintOptions {
  std::vector<std::string> files;
  std::optional<std::string> json;
  std::optional<std::string> sarif;
  bool notices = false;
  bool help = false;
};

po::options_description lint_description() {
  po::options_description description("Options");
  description.add_options()                                           //
      ("notices", "also advice that does not hold on every cluster")  //
      ("json", po::value<std::string>()->value_name("FILE"),
       "write findings to FILE, - for standard output")  //
      ("sarif", po::value<std::string>()->value_name("FILE"),
       "write them as SARIF 2.1.0, for editors and code hosts");
  tool::add_common(description);
  return description;
}

LintOptions parse_lint(const std::vector<std::string>& arguments) {
  LintOptions options;
  std::vector<std::string> rest = arguments;
  options.files = tool::take_files(
      rest, [](const std::string& option) { return option == "--json" || option == "--sarif"; });
  const po::variables_map values = tool::parse(rest, lint_description(), "weft-launch lint --help");
  options.help = values.count("help") != 0;
  options.notices = values.count("notices") != 0;
  if (values.count("json") != 0) options.json = values["json"].as<std::string>();
  if (values.count("sarif") != 0) options.sarif = values["sarif"].as<std::string>();
  if (!options.help && options.files.empty())
    throw Error(ErrorKind::usage, "the manifest is missing",
                "weft-launch lint FILE, or kubectl kustomize DIR | weft-launch lint -");
  return options;
}

void print_help() {
  std::cout
      << "weft-launch lint FILE... [options]\n\n"
         "Says what is wrong with the manifest of a job for Kubernetes before it is applied: Job, JobSet, "
         "MPIJob, PyTorchJob and its like,\n"
         "TrainJob and its runtimes, jobs of Volcano, LeaderWorkerSet, RayJob, RayCluster and RayService. "
         "Other kinds with pods are named as not\n"
         "checked. Files that are applied together are given together; - is standard input. It asks no "
         "cluster.\n\n"
      << lint_description()
      << "\nExamples:\n"
         "  weft-launch lint service.yaml job.yaml\n"
         "  kubectl kustomize launchers/kubernetes/overlays/spot | weft-launch lint -\n\n"
         "Exit status: 0 nothing wrong, 1 warnings, 2 something critical: the job is refused or cannot "
         "run, 42 wrong usage, or no manifest.\n";
}

std::vector<report::manifest::Input> read_all(const std::vector<std::string>& files) {
  std::vector<report::manifest::Input> inputs;
  std::set<std::string> seen;
  for (const std::string& file : files) {
    if (!seen.insert(file).second) throw Error(ErrorKind::usage, text(file, ": is given twice"));
    inputs.push_back({file, detail::read_input(file == "-" ? "/dev/stdin" : file, file,
                                               {.source = detail::Source::file_or_pipe})});
  }
  return inputs;
}

/// As compilers do, so that an editor goes to the line.
void print(const Finding& finding, std::ostream& out) {
  const report::Evidence& place = finding.evidence.front();
  out << report::clean(place.file) << ':' << place.line << ": " << report::name(finding.severity) << ": "
      << report::clean(finding.verdict) << " [" << finding.cause << "]\n";
  if (!place.text.empty()) out << "    | " << report::clean(place.text) << '\n';
  out << "    fix: " << report::clean(finding.fix) << '\n';
}

void print(const report::manifest::Lint& result, const std::vector<Finding>& shown, std::ostream& out) {
  for (const Finding& finding : shown) print(finding, out);
  const bool is_unknown = result.jobs.empty() && !result.not_checked.empty();
  out << (!shown.empty() ? report::tally(shown)
          : is_unknown   ? std::string("nothing is checked but the form")
                         : std::string("nothing wrong"))
      << ": " << report::counted(result.objects, "object");
  for (std::size_t i = 0; i < result.jobs.size(); ++i)
    out << (i == 0 ? ", " : " and ") << report::clean(result.jobs[i]);
  for (std::size_t i = 0; i < result.not_checked.size(); ++i)
    out << (i == 0 ? "; not checked: " : ", ") << report::clean(result.not_checked[i]);
  const std::size_t hidden = result.findings.size() - shown.size();
  if (hidden > 0) out << "; --notices shows " << report::counted(hidden, "notice");
  out << '\n';
}

std::string to_json(const report::manifest::Lint& result, const std::vector<Finding>& shown) {
  json::array jobs;
  json::array not_checked;
  for (const std::string& job : result.jobs) jobs.push_back(report::as_json_text(job));
  for (const std::string& object : result.not_checked) not_checked.push_back(report::as_json_text(object));
  return json::serialize(json::object{{"findings", report::as_json(shown)},
                                      {"jobs", std::move(jobs)},
                                      {"not_checked", std::move(not_checked)},
                                      {"objects", result.objects}}) +
         "\n";
}

}  // namespace

int run_lint(const std::vector<std::string>& arguments) {
  const LintOptions options = parse_lint(arguments);
  if (options.help) {
    print_help();
    return 0;
  }
  tool::Outputs outputs("weft-launch");
  outputs.open("--json", options.json);
  outputs.open("--sarif", options.sarif);
  const report::manifest::Lint result = report::manifest::lint(read_all(options.files));
  std::vector<Finding> shown;
  std::ranges::copy_if(result.findings, std::back_inserter(shown), [&](const Finding& one) {
    return options.notices || one.severity != Severity::notice;
  });
  print(result, shown, outputs.people());
  tool::Contents contents;
  if (options.json) contents["--json"] = to_json(result, shown);
  if (options.sarif) contents["--sarif"] = report::to_sarif(shown, std::string(library_version()));
  outputs.write(contents);
  return report::exit_status(shown);
}

}  // namespace weft::launch
