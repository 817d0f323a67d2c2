#include "nccl_options.hpp"

#include <algorithm>
#include <sstream>

#include "common/command_line.hpp"
#include "options.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

po::options_description nccl_description() {
  po::options_description result("Options", 110);
  add_output_options(result, "findings and hosts");
  result.add_options()  //
      ("rules", "print all causes and what shows each, as Markdown, and read nothing");
  tool::add_common(result);
  return result;
}

}  // namespace

NcclOptions parse_nccl_options(const std::vector<std::string>& arguments) {
  NcclOptions options;
  std::vector<std::string> rest = arguments;
  while (!rest.empty() && (rest.front() == "-" || !rest.front().starts_with('-'))) {
    options.paths.push_back(rest.front());
    rest.erase(rest.begin());
  }
  const po::variables_map values = tool::parse(rest, nccl_description(), "weft-report nccl --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  options.rules = values.count("rules") != 0;
  if (options.rules) {
    tool::refuse_ignored(values, {"json", "sarif", "markdown", "html"}, "--rules prints the rules");
    if (!options.paths.empty())
      throw Error(ErrorKind::usage,
                  text("'", options.paths.front(), "' has no effect: --rules prints the rules"),
                  "leave it out");
    return options;
  }
  if (options.paths.empty())
    throw Error(ErrorKind::usage, "no log is named",
                "files, folders or - come first: weft-report nccl PATH... [--json FILE]");
  if (std::ranges::count(options.paths, "-") > 1)
    throw Error(ErrorKind::usage, "- is named twice", "standard input can be read once");
  options.files = output_files(values);
  return options;
}

std::string nccl_help() {
  std::ostringstream out;
  out << "weft-report nccl PATH... [options]\n\n"
         "Reads the logs of a job that runs NCCL and says what is wrong: the cause, the lines that show it, "
         "and\n"
         "what to set. PATH is a file, a folder (all files in it and below), or - for standard input. The "
         "job\n"
         "needs no weft. Give the logs of all ranks at once: many causes show only where hosts are "
         "compared.\n\n"
         "Run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH. Output of "
         "nccl-tests,\n"
         "nvidia-smi topo -m, ibv_devinfo -v, ulimit -a, lspci -vvv, pip freeze and dmesg may stand in the "
         "same files;\n"
         "topologies and graphs of NCCL (NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE) are files beside "
         "them.\n\n"
      << nccl_description()
      << "\nExamples:\n"
         "  weft-report nccl logs/\n"
         "  weft-report nccl slurm-4711.out --json findings.json\n"
         "  weft-report nccl logs/ --html report.html --markdown issue.md\n"
         "  kubectl logs -l job-name=train --tail=-1 | weft-report nccl -\n\n"
      << exit_statuses;
  return std::move(out).str();
}

}  // namespace weft::report
