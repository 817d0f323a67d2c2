#include "tune_options.hpp"

#include <algorithm>
#include <sstream>

#include "common/command_line.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

po::options_description tune_description() {
  po::options_description result("Options", 110);
  result.add_options()  //
      ("minutes", po::value<double>()->value_name("N"),
       "time for all runs together (10); a run that has begun comes to its end")  //
      ("output", po::value<std::string>()->value_name("DIR"),
       "write what is kept into this folder, which all nodes see: nccl.conf, settings.sh, mpirun-flags.txt, "
       "and a table of "
       "algorithms")  //
      ("log", po::value<std::vector<std::string>>()->value_name("PATH"),
       "logs of NCCL of this job: its network and nodes say what is worth a try; may be given again")  //
      ("deadline", po::value<double>()->value_name("SECONDS"),
       "end a run that takes longer (30, and 10 times the first run)")  //
      ("tuner", po::value<std::string>()->value_name("NAME"),
       "what NCCL_TUNER_PLUGIN is for tables of algorithms (weft): a name, or the path of "
       "libnccl-tuner-weft.so on all nodes")  //
      ("pairs", po::value<int>()->value_name("N"),
       "pairs of runs in each comparison, 8 to 200; twice as many where these do not decide (as the time "
       "allows, 8 to 45)")  //
      ("seed", po::value<std::uint64_t>()->value_name("N"),
       "of the order in which settings take turns (1)")  //
      ("json", po::value<std::string>()->value_name("FILE"),
       "write what was measured to FILE, - for standard output")  //
      ("quiet,q", "no progress, and no lines that are not figures");
  tool::add_common(result);
  return result;
}

void check(const TuneOptions& options) {
  const auto refuse_unless = [](bool right, const std::string& problem) {
    if (!right) throw Error(ErrorKind::usage, problem);
  };
  refuse_unless(options.minutes > 0 && options.minutes <= 10080,
                text("--minutes ", options.minutes, " is not a number above 0, up to 10080 (a week)"));
  refuse_unless(!options.deadline || (*options.deadline > 0 && *options.deadline <= 1e6),
                text("--deadline ", options.deadline.value_or(0), " is not a number of seconds above 0"));
  refuse_unless(!options.pairs || (*options.pairs >= 8 && *options.pairs <= 200),
                text("--pairs ", options.pairs.value_or(0), " is not a number from 8 to 200"));
  refuse_unless(!options.output || !options.output->empty(), "--output names no folder");
  refuse_unless(!options.tuner || !options.tuner->empty(), "--tuner names no tuner");
  if (options.command.empty())
    throw Error(ErrorKind::usage, "no command is given",
                "it stands behind --: weft-report tune -- mpirun -n 2 weft-bench all_reduce");
}

}  // namespace

TuneOptions parse_tune_options(const std::vector<std::string>& arguments) {
  TuneOptions options;
  const auto end = std::ranges::find(arguments, "--");
  const std::vector<std::string> own(arguments.begin(), end);
  if (end != arguments.end()) options.command.assign(end + 1, arguments.end());
  const po::variables_map values = tool::parse(own, tune_description(), "weft-report tune --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  if (given("minutes")) options.minutes = values["minutes"].as<double>();
  if (given("deadline")) options.deadline = values["deadline"].as<double>();
  if (given("log")) options.logs = values["log"].as<std::vector<std::string>>();
  if (given("output")) options.output = values["output"].as<std::string>();
  if (given("tuner")) options.tuner = values["tuner"].as<std::string>();
  if (given("pairs")) options.pairs = values["pairs"].as<int>();
  if (given("seed")) options.seed = values["seed"].as<std::uint64_t>();
  if (given("json")) options.json = values["json"].as<std::string>();
  options.quiet = given("quiet");
  check(options);
  return options;
}

std::string tune_help() {
  std::ostringstream out;
  out << "weft-report tune [options] -- LAUNCHER BENCHMARK...\n\n"
         "Finds settings with which a collective is faster. BENCHMARK is weft-bench or a program of "
         "nccl-tests, as\n"
         "all_reduce_perf. The command is run again and again: each setting alone first, then the promising "
         "ones in\n"
         "turn with what is kept. What is kept has shown a gain that chance does not explain; often that is "
         "nothing.\n"
         "A setting whose run fails, takes too long or gives wrong results is dropped.\n\n"
         "Settings reach ranks through the environment of the command; mpirun gets -x for each. Variables "
         "that are\n"
         "already set are left alone.\n\n"
      << tune_description()
      << "\nExamples:\n"
         "  weft-report tune --minutes 20 --output tuned -- mpirun -n 16 -H node1:8,node2:8 all_reduce_perf "
         "-b 8 -e 1G -f 4\n"
         "  weft-report tune --output tuned -- weft-launch -n 4 --hosts hosts.txt weft-bench all_reduce -e "
         "16M -f 4 -n 10\n"
         "  weft-report tune --log logs/ --json - -- srun -n 16 all_gather_perf -b 1M -e 1G -f 4\n\n"
         "Exit status: 0 done, also where nothing is faster; 42 wrong usage, or a command that is no "
         "measurement;\n"
         "70 a fault of the system; 130 and 143 ended by Ctrl-C and SIGTERM: what was kept until then is "
         "written.\n";
  return std::move(out).str();
}

}  // namespace weft::report
