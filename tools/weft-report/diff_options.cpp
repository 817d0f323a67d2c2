#include "diff_options.hpp"

#include <sstream>

#include "common/command_line.hpp"
#include "options.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

po::options_description diff_description() {
  po::options_description result("Options", 110);
  add_output_options(result, "what differs");
  tool::add_common(result);
  return result;
}

}  // namespace

DiffOptions parse_diff_options(const std::vector<std::string>& arguments) {
  DiffOptions options;
  std::vector<std::string> runs;
  std::vector<std::string> rest = arguments;
  while (!rest.empty() && (rest.front() == "-" || !rest.front().starts_with('-'))) {
    runs.push_back(rest.front());
    rest.erase(rest.begin());
  }
  const po::variables_map values = tool::parse(rest, diff_description(), "weft-report diff --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (runs.size() != 2)
    throw Error(
        ErrorKind::usage, text("weft-report diff takes two runs, not ", runs.size()),
        "name the earlier one first: weft-report diff A B; a run is a folder, a file, or what --json wrote");
  if (runs[0] == "-" && runs[1] == "-")
    throw Error(ErrorKind::usage, "- is named twice", "standard input can be read once");
  options.before = runs[0];
  options.after = runs[1];
  options.files = output_files(values);
  return options;
}

std::string diff_help() {
  std::ostringstream out;
  out << "weft-report diff A B [options]\n\n"
         "Compares two runs of a job that uses NCCL: findings that are new, gone or the same, facts that "
         "differ\n"
         "(versions, network, settings, connections), and the bandwidth of each size that both measured. A "
         "and B\n"
         "are a folder of logs, a log, - for standard input, or a file that weft-report nccl --json wrote. "
         "The\n"
         "earlier run comes first. --sarif has the new findings.\n\n"
      << diff_description()
      << "\nExamples:\n"
         "  weft-report diff logs-monday/ logs-today/\n"
         "  weft-report diff baseline.json logs/ --markdown regression.md\n\n"
         "Exit status: 0 no new finding, or new notices only, 1 new warnings, 2 a new critical finding, 42 "
         "wrong\n"
         "usage or input, 70 a fault of the system.\n";
  return std::move(out).str();
}

}  // namespace weft::report
