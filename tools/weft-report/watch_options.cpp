#include "watch_options.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/command_line.hpp"
#include "core/base/host_port.hpp"
#include "options.hpp"
#include "ras_options.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

po::options_description watch_description() {
  const auto value = [](const char* name) { return po::value<std::string>()->value_name(name); };
  po::options_description result("Options", 110);
  result.add_options()                                                      //
      ("every", value("SECONDS"), "look so often (1 to 3600, default 10)")  //
      ("patience", value("SECONDS"),
       "a rank that has launched nothing for so long while others wait is an alarm (1 to 86400, default "
       "30)")                                                                                     //
      ("timeout", value("SECONDS"), "wait so long for an answer (1 to 3600, default 20)")         //
      ("for", value("SECONDS"), "end after so long (1 to 31536000; default: when the job ends)")  //
      ("until-alarm", "end at the first critical alarm")                                          //
      ("until-closed",
       "end when standard input is closed, after a last look: whoever starts the watch holds the other "
       "end. What is written there is read as a log: the lines of a launcher name a rank that was killed")  //
      ("ranks", po::value<std::vector<std::string>>()->composing()->value_name("PORTS"),
       "ask the ranks of a job of weft, which serve metrics there: PORT, FIRST-LAST, HOST:PORT or "
       "HOST:FIRST-LAST; may be given again. RAS is then asked only where an address is given")  //
      ("logs", po::value<std::vector<std::string>>()->composing()->value_name("PATH"),
       "also read logs of NCCL and PyTorch as they grow, as weft-report nccl does; may be given again")  //
      ("records", value("DIR"),
       "also read flight records when they appear in DIR: PyTorch's (nccl_trace_rank_R), or weft's "
       "(rank-R.json)")  //
      ("inspector", value("DIR"),
       "also read what NCCL's Inspector writes to DIR, as weft-report inspector does: stragglers, and "
       "whether "
       "operations go on")  //
      ("metrics", value("FILE"),
       "write figures for Prometheus' textfile collector to FILE (its name ends in .prom) at each look")  //
      ("metrics-port", value("PORT"), "serve the same figures over HTTP, at /metrics")                    //
      ("metrics-bind", value("ADDRESS"), "serve them at this address of the machine (default: 127.0.0.1)");
  add_output_options(result, "what stood at the end");
  tool::add_common(result);
  return result;
}

/// @param advice names the folder that is wanted
std::string folder_of(const po::variables_map& values, const std::string& name, const std::string& advice) {
  if (values.count(name) == 0) return {};
  const auto& path = values[name].as<std::string>();
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    throw Error(ErrorKind::usage, text("--", name, ' ', path, ": is no folder"), advice);
  return path;
}

void parse_serving(const po::variables_map& values, WatchOptions& options) {
  if (values.count("metrics") != 0) {
    options.metrics = values["metrics"].as<std::string>();
    if (options.metrics.empty())
      throw Error(ErrorKind::usage, "--metrics: the name of the file is empty", "give one like watch.prom");
  }
  if (values.count("metrics-port") == 0) {
    tool::refuse_ignored(values, {"metrics-bind"}, "--metrics-port is not given");
    return;
  }
  const auto& word = values["metrics-port"].as<std::string>();
  options.metrics_port = detail::port_number(word);
  if (!options.metrics_port)
    throw Error(ErrorKind::usage, text("--metrics-port ", word, " is not a number from 1 to 65535"));
  if (values.count("metrics-bind") != 0) options.metrics_bind = values["metrics-bind"].as<std::string>();
}

void parse_ranks(const po::variables_map& values, WatchOptions& options) {
  if (values.count("ranks") == 0) return;
  for (const std::string& words : values["ranks"].as<std::vector<std::string>>()) {
    for (RankAddress& one : parse_rank_addresses(words)) options.ranks.push_back(std::move(one));
  }
}

}  // namespace

WatchOptions parse_watch_options(const std::vector<std::string>& arguments) {
  WatchOptions options;
  std::vector<std::string> rest = arguments;
  const auto takes_value = [](const std::string& option) {
    return is_output_option(option) ||
           (option.starts_with("--") && option != "--until-alarm" && option != "--until-closed" &&
            option != "--help" && option != "--version" && option.find('=') == std::string::npos);
  };
  const std::vector<std::string> words = tool::take_files(rest, takes_value);
  const po::variables_map values = tool::parse(rest, watch_description(), "weft-report watch --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (words.size() > 1)
    throw Error(ErrorKind::usage, text("'", words[1], "' is one address too many"),
                "allowed is one: weft-report watch [ADDRESS]");
  const char* variable = std::getenv("NCCL_RAS_ADDR");
  if (!words.empty()) {
    options.address = parse_ras_address(words.front(), "the address");
  } else if (variable != nullptr && *variable != '\0') {
    options.address = parse_ras_address(variable, "NCCL_RAS_ADDR");
  } else {
    options.asks_ras = values.count("ranks") == 0;
  }
  parse_ranks(values, options);
  const auto seconds = [&](const char* name, double most, double& value) {
    if (values.count(name) != 0)
      value = seconds_from(std::string("--") + name, values[name].as<std::string>(), 1, most);
  };
  seconds("every", 3600, options.every);
  seconds("patience", 86400, options.patience);
  seconds("timeout", 3600, options.asked.seconds);
  seconds("for", 31536000, options.most);
  options.until_alarm = values.count("until-alarm") != 0;
  if (values.count("logs") != 0) options.logs = values["logs"].as<std::vector<std::string>>();
  options.until_closed = values.count("until-closed") != 0;
  options.records =
      folder_of(values, "records",
                "name the folder of TORCH_NCCL_DEBUG_INFO_TEMP_FILE, or WEFT_FLIGHT_DIR; it may be empty");
  options.inspector =
      folder_of(values, "inspector", "name the folder of NCCL_INSPECTOR_DUMP_DIR; it may be empty");
  parse_serving(values, options);
  options.outputs = output_files(values);
  return options;
}

std::string watch_help() {
  std::ostringstream out;
  out << "weft-report watch [ADDRESS] [options]\n\n"
         "Stays beside a job on NCCL or on weft, prints a line when something changes, and says who hangs "
         "before "
         "the job's\n"
         "time-out does. Of NCCL it asks RAS, as weft-report ras does; of weft the metrics of the ranks "
         "(--ranks). "
         "It reads logs,\n"
         "flight records and Inspector's files that are named. It changes nothing in the job, and survives "
         "it: when "
         "nobody\n"
         "answers any more, three times in a row, it prints what stood, and ends.\n\n"
         "ADDRESS is HOST:PORT, HOST or :PORT (default: NCCL_RAS_ADDR, or localhost:28028). One watch is "
         "enough "
         "for a job.\n"
         "An alarm of ranks that are behind, or that all stand still, needs two answers that are --patience "
         "apart. "
         "NCCL\n"
         "before 2.28.7 does not say how far ranks are that are alike, so a job that stands still as a whole "
         "is "
         "not seen.\n\n"
      << watch_description()
      << "\nExamples:\n"
         "  weft-report watch --logs /logs --json verdict.json\n"
         "  weft-report watch node7:28028 --patience 60 --metrics /var/lib/node-exporter/watch.prom\n"
         "  weft-report watch --ranks 9400-9407 --records /shared/flight\n"
         "  weft-report watch --until-alarm && echo well\n\n"
      << exit_statuses;
  return std::move(out).str();
}

}  // namespace weft::report
