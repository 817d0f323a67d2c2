#include "inspector_options.hpp"

#include <sstream>

#include "common/command_line.hpp"
#include "options.hpp"
#include "weft-report/bandwidth/links.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

po::options_description inspector_description() {
  po::options_description result("Options", 110);
  result.add_options()  //
      ("gpu", po::value<std::string>()->value_name("NAME"),
       "the GPUs of the job as nvidia-smi names them, \"NVIDIA H100 80GB HBM3\": says what their links allow "
       "where no log does");
  add_output_options(result, "findings, operations and ranks");
  tool::add_common(result);
  return result;
}

}  // namespace

InspectorOptions parse_inspector_options(const std::vector<std::string>& arguments) {
  InspectorOptions options;
  std::vector<std::string> rest = arguments;
  const std::vector<std::string> paths = tool::take_files(
      rest, [](const std::string& option) { return is_output_option(option) || option == "--gpu"; });
  const po::variables_map values = tool::parse(rest, inspector_description(), "weft-report inspector --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (paths.empty())
    throw Error(ErrorKind::usage, "no folder of NCCL's Inspector is named",
                "it comes first: weft-report inspector DIR [LOG...] [--json FILE]");
  options.folder = paths.front();
  options.beside.assign(paths.begin() + 1, paths.end());
  if (values.count("gpu") != 0) {
    options.gpu = values["gpu"].as<std::string>();
    if (bandwidth::links_of_gpu(options.gpu) <= 0)
      throw Error(ErrorKind::usage, text("--gpu '", options.gpu, "': the links of such a GPU are not known"),
                  "give the name that nvidia-smi -L prints, or name a log of NCCL_DEBUG=INFO "
                  "NCCL_DEBUG_SUBSYS=GRAPH after the folder");
  }
  options.files = output_files(values);
  return options;
}

std::string inspector_help() {
  std::ostringstream out;
  out << "weft-report inspector DIR [LOG...] [options]\n\n"
         "Reads what NCCL's Inspector wrote into DIR (NCCL 2.28 and newer; JSON lines, or Prometheus text), "
         "also while\n"
         "the job runs. Says which rank comes last in all collectives or takes longer than the others, by "
         "how much and\n"
         "since when; which operations became slower; which stay below what the links allow; and prints "
         "times and\n"
         "bandwidths by communicator, operation and size. DIR is the folder of NCCL_INSPECTOR_DUMP_DIR with "
         "the files\n"
         "of all ranks, or one such file. A LOG is a log of NCCL (NCCL_DEBUG=INFO "
         "NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH) or a\n"
         "topology file of the same machines, which states their links.\n\n"
      << inspector_description()
      << "\nExamples:\n"
         "  weft-report inspector nccl-inspector-4711\n"
         "  weft-report inspector nccl-inspector-4711 logs/rank0.log --html report.html\n"
         "  weft-report inspector /shared/inspector --gpu \"NVIDIA H100 80GB HBM3\"\n"
         "  weft-report inspector nccl-inspector-4711 --json - | jq '.findings[0].ranks'\n\n"
      << exit_statuses;
  return std::move(out).str();
}

}  // namespace weft::report
