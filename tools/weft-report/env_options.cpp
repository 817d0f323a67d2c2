#include "env_options.hpp"

#include <sstream>

#include "common/command_line.hpp"
#include "options.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

constexpr NcclVersion oldest_known{{2, 4, 0}};

po::options_description env_description() {
  po::options_description result("Options", 110);
  result.add_options()  //
      ("nccl", po::value<std::string>()->value_name("VERSION"),
       "the NCCL that the job loads, as 2.28.9 or 2.28 (default 2.32.3)");
  add_output_options(result, "findings and settings");
  tool::add_common(result);
  return result;
}

NcclVersion version_from(const std::string& value) {
  // 2.28 is every version of that line: a variable that came with 2.28.7 is none that is missing.
  const auto version = parse_nccl_version(value, 999);
  if (!version || *version < oldest_known)
    throw Error(ErrorKind::usage, text("--nccl ", value, ": is no version of NCCL from 2.4 on"),
                "give one like 2.28.9 or 2.28");
  return *version;
}

}  // namespace

EnvOptions parse_env_options(const std::vector<std::string>& arguments) {
  EnvOptions options;
  std::vector<std::string> rest = arguments;
  options.files = tool::take_files(
      rest, [](const std::string& option) { return is_output_option(option) || option == "--nccl"; });
  const po::variables_map values = tool::parse(rest, env_description(), "weft-report env --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (values.count("nccl") != 0) options.version = version_from(values["nccl"].as<std::string>());
  options.outputs = output_files(values);
  return options;
}

std::string env_help() {
  std::ostringstream out;
  out << "weft-report env [FILE...] [options]\n\n"
         "Finds settings of NCCL that are unknown (with the nearest name), not read by the version, not "
         "allowed,\n"
         "dangerous, left over from debugging, contradictory, or different between ranks. Without a FILE it "
         "looks\n"
         "at the environment of this process and at the configuration files that NCCL reads. Several FILEs "
         "are\n"
         "several ranks or hosts. A FILE is the output of env, /proc/PID/environ, a script with export "
         "lines, a\n"
         "manifest with name and value, or, where its name ends in .conf, a configuration file of NCCL; - "
         "is\n"
         "standard input.\n\n"
      << env_description()
      << "\nExamples:\n"
         "  weft-report env\n"
         "  mpirun -n 2 weft-report env\n"
         "  weft-report env node0.env node1.env --nccl 2.28.9\n"
         "  weft-report env --json - | jq '.findings[0].cause'\n\n"
      << exit_statuses;
  return std::move(out).str();
}

}  // namespace weft::report
