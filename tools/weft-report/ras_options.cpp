#include "ras_options.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/command_line.hpp"
#include "core/base/number.hpp"
#include "options.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

po::options_description ras_description() {
  po::options_description result("Options", 110);
  result.add_options()  //
      ("every", po::value<std::string>()->value_name("SECONDS"),
       "ask twice, so far apart: what stands still is stuck, what moves is slow (1 to 3600)")  //
      ("timeout", po::value<std::string>()->value_name("SECONDS"),
       "wait so long for an answer (1 to 3600, default 20); NCCL itself waits up to 10 s for processes that "
       "give none")  //
      ("text", "ask for the short text, as NCCL before 2.28.7 answers; it names fewer ranks");
  add_output_options(result, "findings and the answer");
  tool::add_common(result);
  return result;
}

/// Whether a word is a file or an address: an existing path, or one that no address can be, is a file.
bool is_file(const std::string& word) {
  std::error_code error;
  return word == "-" || word.find('/') != std::string::npos || std::filesystem::exists(word, error);
}

void take_source(const std::string& word, RasOptions& options) {
  if (is_file(word)) {
    options.file = word;
  } else {
    options.address = parse_ras_address(word, "the address");
  }
}

}  // namespace

double seconds_from(const std::string& option, const std::string& value, double least, double most) {
  const auto seconds = detail::number_of<double>(value);
  if (!seconds || !(*seconds >= least && *seconds <= most))
    throw Error(ErrorKind::usage,
                text(option, ' ', value, ": is no number of seconds from ", least, " to ", most),
                text("give one like ", option, " 10"));
  return *seconds;
}

RasOptions parse_ras_options(const std::vector<std::string>& arguments) {
  RasOptions options;
  std::vector<std::string> rest = arguments;
  const auto takes_value = [](const std::string& option) {
    return is_output_option(option) || option == "--every" || option == "--timeout";
  };
  const std::vector<std::string> words = tool::take_files(rest, takes_value);
  const po::variables_map values = tool::parse(rest, ras_description(), "weft-report ras --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (words.size() > 1)
    throw Error(ErrorKind::usage, text("'", words[1], "' is one address or file too many"),
                "allowed is one: weft-report ras [ADDRESS | FILE]");
  const char* variable = std::getenv("NCCL_RAS_ADDR");
  if (!words.empty()) {
    take_source(words.front(), options);
  } else if (variable != nullptr && *variable != '\0') {
    options.address = parse_ras_address(variable, "NCCL_RAS_ADDR");
  }
  if (!options.file.empty())
    tool::refuse_ignored(values, {"every", "timeout", "text"}, "a file is read, and nobody is asked");
  const auto seconds = [&](const char* name, double& value) {
    if (values.count(name) != 0)
      value = seconds_from(std::string("--") + name, values[name].as<std::string>(), 1, 3600);
  };
  seconds("every", options.every);
  seconds("timeout", options.asked.seconds);
  options.asked.text_only = values.count("text") != 0;
  options.outputs = output_files(values);
  return options;
}

std::string ras_help() {
  std::ostringstream out;
  out << "weft-report ras [ADDRESS | FILE] [options]\n\n"
         "Says who hangs in an NCCL job that still runs. It asks one process of the job on its RAS socket "
         "(NCCL 2.24 "
         "and\n"
         "later), which asks all others, and names the ranks that are behind, processes that are dead or "
         "give no "
         "answer,\n"
         "communicators that are not whole, errors and aborts. The job needs no weft, and nothing in it "
         "changes.\n\n"
         "ADDRESS is HOST:PORT, HOST or :PORT (default: NCCL_RAS_ADDR, or localhost:28028), FILE an answer "
         "that "
         "ncclras\n"
         "or nc saved, - standard input. One answer is a sample: a rank that is one operation behind may be "
         "well. "
         "Ask\n"
         "twice (--every) to tell slow from stuck. RAS counts what ranks launch and not what ends; it counts "
         "no send "
         "and\n"
         "no receive.\n\n"
      << ras_description()
      << "\nExamples:\n"
         "  weft-report ras --every 10\n"
         "  weft-report ras node7:28028 --every 30 --json - | jq '.findings[0]'\n"
         "  ncclras -f json > answer.json && weft-report ras answer.json\n"
         "  kubectl exec train-0 -- ncclras -v | weft-report ras -\n\n"
         "Exit status: 0 nothing wrong, 1 warnings only, 2 a critical finding, 42 wrong usage or input, 75 "
         "nobody "
         "answers,\n"
         "or not in time, 70 a fault of the system.\n";
  return std::move(out).str();
}

}  // namespace weft::report
