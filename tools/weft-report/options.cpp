#include "options.hpp"

#include <sstream>

#include "common/command_line.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

po::options_description flight_description() {
  po::options_description result("Options", 110);
  add_output_options(result, "findings and ranks");
  tool::add_common(result);
  return result;
}

}  // namespace

FlightOptions parse_flight_options(const std::vector<std::string>& arguments) {
  FlightOptions options;
  std::vector<std::string> rest = arguments;
  const auto is_word = [&] { return !rest.empty() && !rest.front().starts_with('-'); };
  if (is_word()) {
    options.folder = rest.front();
    rest.erase(rest.begin());
  }
  if (is_word())
    throw Error(ErrorKind::usage, text("'", rest.front(), "' is one folder too many"),
                "allowed is one: weft-report flight DIR [--json FILE]");
  const po::variables_map values = tool::parse(rest, flight_description(), "weft-report flight --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (options.folder.empty())
    throw Error(ErrorKind::usage, "no folder of flight records is named",
                "it comes first: weft-report flight DIR [--json FILE]");
  options.files = output_files(values);
  return options;
}

std::string flight_help() {
  std::ostringstream out;
  out << "weft-report flight DIR [options]\n\n"
         "Merges the flight records rank-R.json in DIR, which ranks write when an operation fails, a "
         "deadline\n"
         "passes or SIGUSR2 arrives, and names the culprit: the rank that issued something else, raised an\n"
         "error first, left no record, or is behind. Records of PyTorch's flight recorder "
         "(nccl_trace_rank_R,\n"
         "pickle or JSON) are read in their place; nothing in a pickle is executed.\n\n"
      << flight_description()
      << "\nExamples:\n"
         "  weft-report flight dumps\n"
         "  weft-report flight dumps --json - | jq '.findings[0].cause'\n\n"
      << exit_statuses;
  return std::move(out).str();
}

std::string help() {
  po::options_description common("Options");
  tool::add_common(common);
  std::ostringstream out;
  out << "weft-report flight DIR [options]          weft-report flight --help says more\n"
         "weft-report env [FILE...] [options]       weft-report env --help says more\n"
         "weft-report nccl PATH... [options]        weft-report nccl --help says more\n"
         "weft-report ras [ADDRESS | FILE]          weft-report ras --help says more\n"
         "weft-report watch [ADDRESS] [options]     weft-report watch --help says more\n"
         "weft-report diff A B [options]            weft-report diff --help says more\n"
         "weft-report inspector DIR [options]       weft-report inspector --help says more\n"
         "weft-report tune [options] -- COMMAND     weft-report tune --help says more\n\n"
         "Finds what is wrong with a job, and prints the evidence and the fix.\n\n"
         "  flight DIR   finds the rank that made others wait or fail, from the flight records in DIR\n"
         "  env          finds settings of NCCL that are unknown, dangerous or different between ranks\n"
         "  nccl PATH    finds what is wrong with a job that runs NCCL, from the logs of its ranks\n"
         "  ras          says who hangs in a job that still runs, by asking NCCL's RAS\n"
         "  watch        stays beside such a job, and says so when it hangs\n"
         "  diff A B     compares two runs of such a job: findings, versions, settings, connections, "
         "bandwidth\n"
         "  inspector    finds ranks that hold others up, and slow collectives, from what NCCL's Inspector "
         "wrote\n"
         "  tune         finds settings with which a collective is faster, by running a benchmark\n\n"
      << common
      << "\nExamples:\n  weft-report flight dumps\n  weft-report env\n  weft-report nccl logs/\n"
         "  weft-report tune -- mpirun -n 2 weft-bench all_reduce\n\n"
      << exit_statuses;
  return std::move(out).str();
}

}  // namespace weft::report
