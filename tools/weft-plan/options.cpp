#include "options.hpp"

#include <cmath>
#include <sstream>

#include "common/command_line.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

namespace po = boost::program_options;

po::options_description description() {
  po::options_description result("Options", 110);
  result.add_options()  //
      ("latency-us", po::value<double>()->value_name("US"),
       "what a bucket costs however small, instead of what was measured")  //
      ("gbytes-per-second", po::value<double>()->value_name("RATE"),
       "gradient bytes that are reduced in a second, instead of what was measured")  //
      ("bucket-bytes", po::value<std::size_t>()->value_name("N"),
       "explain buckets of this size instead of the planned ones")  //
      ("json", po::value<std::string>()->value_name("FILE"),
       "write the figures to FILE, - for standard output")  //
      ("help,h", "this text");
  return result;
}

}  // namespace

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<std::string> rest = arguments;
  const bool has_word = !rest.empty() && !rest.front().starts_with('-');
  const std::string command = has_word ? rest.front() : "";
  if (has_word) rest.erase(rest.begin());
  if (!rest.empty() && !rest.front().starts_with('-')) {
    options.file = rest.front();
    rest.erase(rest.begin());
  }
  const po::variables_map values = tool::parse(rest, description(), "weft-plan --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (command != "buckets") {
    throw Error(ErrorKind::usage,
                command.empty() ? "nothing to plan is named" : text("'", command, "' is nothing to plan"),
                "allowed are buckets, memory and schedule: weft-plan buckets TRACE, weft-plan memory, "
                "weft-plan schedule");
  }
  if (options.file.empty()) {
    throw Error(ErrorKind::usage, "no trace is named",
                "weft-scaling --trace FILE writes one: weft-plan buckets FILE");
  }
  const auto number = [&](const char* name, double least) -> std::optional<double> {
    if (values.count(name) == 0) return std::nullopt;
    const double value = values[name].as<double>();
    if (!std::isfinite(value) || value < least)
      throw Error(ErrorKind::usage, text("--", name, " ", value, " is not a number of ", least, " or more"));
    return value;
  };
  if (const auto latency = number("latency-us", 0)) options.latency_seconds = *latency * 1e-6;
  if (const auto rate = number("gbytes-per-second", 1e-6)) options.bytes_per_second = *rate * 1e9;
  if (values.count("bucket-bytes") != 0) options.bucket_bytes = values["bucket-bytes"].as<std::size_t>();
  if (options.bucket_bytes == 0)
    throw Error(ErrorKind::usage, "--bucket-bytes 0 is not a number of 1 or more");
  if (values.count("json") != 0) options.json = values["json"].as<std::string>();
  return options;
}

std::string help() {
  std::ostringstream out;
  out << "weft-plan buckets TRACE [options]\n"
         "weft-plan memory [options]                weft-plan memory --help says more\n"
         "weft-plan schedule [options]              weft-plan schedule --help says more\n\n"
         "Explains the buckets that gradients travel in: when each is ready, leaves and arrives, what that\n"
         "exposes, and what buckets of fixed sizes would. TRACE is what weft-scaling --trace wrote of a run "
         "in\n"
         "which buckets were planned: without --bucket-bytes, and with a thread for communication.\n\n"
      << description()
      << "\nExamples:\n"
         "  WEFT_PROGRESS=thread mpirun -n 2 weft-scaling --trace run.json && weft-plan buckets run.json\n"
         "  weft-plan buckets run.json --gbytes-per-second 12 --latency-us 20      on another network\n\n"
         "Exit status: 0 done, 42 wrong usage or input, 70 a fault of the system.\n";
  return std::move(out).str();
}

}  // namespace weft::plan
