#include "options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "common/command_line.hpp"
#include "core/base/host_port.hpp"
#include "mpirun_ranks.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

namespace po = boost::program_options;

po::options_description run_description() {
  po::options_description description("Options");
  description.add_options()  //
      ("ranks,n", po::value<int>()->value_name("N"),
       "number of ranks to start (if --hosts has slots: all of them)")  //
      ("hosts", po::value<std::string>()->value_name("FILE"),
       "start them on the hosts in FILE, a line each: NAME [slots=N] [address=HOST]")  //
      ("nodes", po::value<int>()->value_name("N"),
       "the job consists of N weft-launch, each with -n ranks, as in the pods of a "
       "Kubernetes Job; needs --node, --address with a port, and WEFT_TOKEN")                //
      ("node", po::value<int>()->value_name("I"), "the number of this weft-launch, from 0")  //
      ("agent", po::value<std::string>()->value_name("COMMAND"),
       "the program that runs a command on a host: COMMAND NAME WORDS... (ssh -T -o BatchMode=yes)")  //
      ("address", po::value<std::string>()->value_name("HOST[:PORT]"),
       "where rank 0 listens for the other ranks (the first host, a random port)")  //
      (",x", po::value<std::vector<std::string>>()->value_name("NAME"),
       "ranks on hosts also get this variable; may be repeated")  //
      ("output", po::value<std::string>()->value_name("ranks|plain"),
       "whether a line begins with the rank that wrote it, as [3] (with --hosts ranks, else plain)")  //
      ("timeout", po::value<double>()->value_name("SECONDS"),
       "end the job after this long, with status 75")  //
      ("min-ranks", po::value<int>()->value_name("N"),
       "start the job again after a failure, without lost hosts if the rest takes N ranks (all)")  //
      ("max-restarts", po::value<int>()->value_name("N"), "end the job after N failures (3)")      //
      ("wait-hosts", po::value<double>()->value_name("SECONDS"),
       "how long to wait for lost hosts if the rest takes fewer than --min-ranks (600)")  //
      ("grace", po::value<double>()->value_name("SECONDS"),
       "how long ranks may take to save and end after SIGUSR1 (15 if the job may start again, else "
       "unlimited)")  //
      ("watch",
       "start weft-report watch beside the job: who hangs or is slow is named on standard error. It asks the "
       "ranks that serve metrics, else NCCL's RAS")  //
      ("watch-port", po::value<std::string>()->value_name("PORT"),
       "with --watch: the port of the first rank of a host, the next serves on PORT + 1; else that of "
       "--metrics PORT "
       "among the program's words, as weft-scaling has it")  //
      ("quiet,q", "do not show the line about the job on a terminal");
  tool::add_common(description);
  return description;
}

po::options_description env_description() {
  po::options_description description("Options");
  description.add_options()                                                   //
      ("document", "print the table of all variables (docs/environment.md)")  //
      ("json", po::value<std::string>()->value_name("FILE"),
       "write claims and decision to FILE, - for standard output");
  tool::add_common(description);
  return description;
}

/// Where our options end: at "--" or at the first word that is neither an option nor an option's value.
std::size_t program_begin(const std::vector<std::string>& arguments) {
  std::size_t at = 0;
  while (at < arguments.size()) {
    const std::string& word = arguments[at];
    if (word == "--" || word.size() < 2 || word.front() != '-') break;
    static const std::set<std::string> take_next{
        "-n", "--ranks",  "--watch-port", "--timeout",      "--hosts",      "--agent", "--address", "--nodes",
        "-x", "--output", "--min-ranks",  "--max-restarts", "--wait-hosts", "--grace", "--node"};
    at += take_next.contains(word) ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

std::optional<std::chrono::nanoseconds> seconds(const po::variables_map& values, const char* option) {
  if (values.count(option) == 0) return std::nullopt;
  const double given = values[option].as<double>();
  if (!std::isfinite(given) || given <= 0 || given > 1e9)
    throw Error(ErrorKind::usage,
                text("--", option, ' ', given, " is not a number of seconds above 0, at most 1e9"));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(given * 1e9));
}

void parse_restarts(const po::variables_map& values, RunOptions& options) {
  options.grace = seconds(values, "grace");
  const bool is_asked = values.count("min-ranks") != 0 || values.count("max-restarts") != 0;
  if (values.count("wait-hosts") != 0 && (values.count("min-ranks") == 0 || !options.hosts))
    throw Error(ErrorKind::usage, "--wait-hosts is given without --min-ranks and --hosts");
  if (!is_asked) return;
  RestartOptions& restarts = options.restarts.emplace();
  restarts.to_return = seconds(values, "wait-hosts").value_or(std::chrono::minutes(10));
  if (!options.grace) options.grace = std::chrono::seconds(15);
  if (values.count("min-ranks") != 0) {
    restarts.min_ranks = values["min-ranks"].as<int>();
    const int most = options.ranks > 0 ? options.ranks : most_ranks;
    if (restarts.min_ranks < 1 || restarts.min_ranks > most)
      throw Error(ErrorKind::usage,
                  text("--min-ranks ", restarts.min_ranks, " is not a number of ranks from 1 to ", most));
  }
  if (values.count("max-restarts") == 0) return;
  restarts.most = values["max-restarts"].as<int>();
  if (restarts.most < 1)
    throw Error(ErrorKind::usage, text("--max-restarts ", restarts.most, " is not a number of 1 or more"));
}

/// Scripts of before may still have them: what replaces them says more than that they are unknown.
void refuse_removed(const std::vector<std::string>& own) {
  for (const std::string& word : own) {
    const std::string option = word.substr(0, word.find('='));
    if (option == "--notice-http" || option == "--notice-file")
      throw Error(ErrorKind::usage, text(option, " was removed"),
                  "a notice is SIGUSR1 to weft-launch: kill -USR1 $(pgrep -x weft-launch)");
  }
}

bool is_program(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string address_of(const std::string& word) {
  const auto parts = detail::split_host_port(word);
  if (parts && !parts->host.empty() && (!parts->port || detail::port_number(*parts->port))) return word;
  throw Error(ErrorKind::usage, text("--address '", word, "' is neither HOST nor HOST:PORT"),
              "a port is a number from 1 to 65535, and an IPv6 address before it stands in brackets");
}

void parse_hosts(const po::variables_map& values, RunOptions& options) {
  const bool with_hosts = values.count("hosts") != 0;
  const bool with_nodes = values.count("nodes") != 0;
  for (const char* option : {"agent", "address", "-x"}) {
    if (values.count(option) != 0 && !with_hosts && !(with_nodes && option == std::string_view("address")))
      throw Error(ErrorKind::usage, text(option[0] == '-' ? "" : "--", option, " is given without --hosts"));
  }
  if (with_hosts) options.hosts = values["hosts"].as<std::string>();
  if (values.count("agent") != 0) {
    std::istringstream words(values["agent"].as<std::string>());
    for (std::string word; words >> word;) options.agent.push_back(word);
    if (options.agent.empty()) throw Error(ErrorKind::usage, "--agent names no command");
    options.agent.front() = find_program(options.agent.front());
  }
  if (values.count("address") != 0) options.address = address_of(values["address"].as<std::string>());
  if (values.count("-x") != 0) options.exports = values["-x"].as<std::vector<std::string>>();
  options.labels = with_hosts;
  if (values.count("output") == 0) return;
  const std::string& output = values["output"].as<std::string>();
  if (output != "ranks" && output != "plain")
    throw Error(ErrorKind::usage, text("--output ", output, " is neither ranks nor plain"));
  options.labels = output == "ranks";
}

/// Each of several weft-launch starts its own ranks; what they must agree on is on all their command lines.
void parse_nodes(const po::variables_map& values, RunOptions& options) {
  if (values.count("nodes") == 0) {
    if (values.count("node") != 0) throw Error(ErrorKind::usage, "--node is given without --nodes");
    return;
  }
  options.nodes = values["nodes"].as<int>();
  if (options.nodes < 1 || options.nodes > most_ranks)
    throw Error(ErrorKind::usage,
                text("--nodes ", options.nodes, " is not a number of nodes from 1 to ", most_ranks));
  if (options.hosts)
    throw Error(ErrorKind::usage, "--nodes and --hosts are given",
                "--hosts starts the ranks of all hosts from here; with --nodes each node starts its own");
  if (values.count("node") == 0)
    throw Error(ErrorKind::usage, "--nodes is given without --node",
                "say which of them this is; in an indexed Job: --node $(JOB_COMPLETION_INDEX)");
  options.node = values["node"].as<int>();
  if (options.node < 0 || options.node >= options.nodes)
    throw Error(ErrorKind::usage, text("--node ", options.node, " is not below --nodes ", options.nodes),
                "nodes count from 0");
  if (options.nodes > 1 && !detail::split_host_port(options.address)->port)
    throw Error(ErrorKind::usage, text("--address '", options.address, "' has no port"),
                "give every node the same --address HOST:PORT, at which node 0 is reached");
}

/// Beside this program, for both are of one build.
std::string report_beside() {
  const std::string path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "weft-report";
  if (!is_program(path))
    throw Error(ErrorKind::usage, text("--watch: there is no weft-report beside weft-launch: ", path),
                "install it there, or leave --watch out");
  return path;
}

void parse_watch(const po::variables_map& values, RunOptions& options) {
  if (values.count("watch") == 0) return tool::refuse_ignored(values, {"watch-port"}, "--watch is not given");
  options.watch = report_beside();
  if (values.count("watch-port") == 0) return;
  const auto& word = values["watch-port"].as<std::string>();
  options.watch_port = detail::port_number(word);
  if (!options.watch_port)
    throw Error(ErrorKind::usage, text("--watch-port ", word, " is not a number from 1 to 65535"));
}

void expect_of_mpirun(const po::variables_map& values) {
  if (values.count("watch") != 0)
    throw Error(ErrorKind::usage, "--watch has no effect: mpirun says nothing of where its ranks are",
                "start weft-report watch beside the job, on one of its nodes");
  constexpr const char* why = "mpirun starts the ranks: give it such options";
  tool::refuse_ignored(values, {"address", "output", "nodes"}, why);
  if (values.count("-x") != 0) throw Error(ErrorKind::usage, text("-x has no effect: ", why));
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_program(name)) return name;
    struct stat status {};
    const bool exists = stat(name.c_str(), &status) == 0;
    throw Error(ErrorKind::usage,
                text("program ", name, exists ? " is not an executable file" : " does not exist"));
  }
  const char* path = std::getenv("PATH");  // NOLINT: one thread
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = text(folder.empty() ? "." : folder, "/", name);
    if (is_program(candidate)) return candidate;
  }
  throw Error(ErrorKind::usage, text("program ", name, " is not on the PATH"),
              "give its path, as in ./" + name);
}

RunOptions parse_run(const std::vector<std::string>& arguments) {
  const std::size_t begin = program_begin(arguments);
  const auto middle = arguments.begin() + static_cast<std::ptrdiff_t>(begin);
  const std::vector<std::string> own(arguments.begin(), middle);
  refuse_removed(own);
  const po::variables_map values = tool::parse(own, run_description(), "weft-launch --help");
  RunOptions options;
  options.help = values.count("help") != 0;
  if (options.help) return options;

  options.program.assign(middle, arguments.end());
  if (!options.program.empty() && options.program.front() == "--")
    options.program.erase(options.program.begin());
  parse_hosts(values, options);
  if (values.count("ranks") != 0) {
    options.ranks = values["ranks"].as<int>();
    if (options.ranks < 1 || options.ranks > most_ranks) {
      throw Error(ErrorKind::usage,
                  text("-n ", options.ranks, " is not a number of ranks from 1 to ", most_ranks));
    }
  } else if (!options.hosts) {
    throw Error(ErrorKind::usage, "-n is missing", "say how many ranks to start: weft-launch -n 2 PROGRAM");
  }
  parse_nodes(values, options);
  if (static_cast<std::int64_t>(options.ranks) * options.nodes > most_ranks)
    throw Error(ErrorKind::usage, text("-n ", options.ranks, " on --nodes ", options.nodes, " are more than ",
                                       most_ranks, " ranks"));
  options.timeout = seconds(values, "timeout");
  options.quiet = values.count("quiet") != 0;
  parse_watch(values, options);
  parse_restarts(values, options);
  if (options.program.empty()) {
    throw Error(ErrorKind::usage, "the program to start is missing", "weft-launch -n 2 PROGRAM ARGUMENTS");
  }
  options.program.front() = find_program(options.program.front());
  options.by_mpirun = is_mpirun(options.program);
  if (options.by_mpirun) expect_of_mpirun(values);
  return options;
}

EnvOptions parse_env(const std::vector<std::string>& arguments) {
  const po::variables_map values = tool::parse(arguments, env_description(), "weft-launch env --help");
  EnvOptions options;
  options.help = values.count("help") != 0;
  options.document = values.count("document") != 0;
  if (options.document)
    tool::refuse_ignored(values, {"json"}, "--document prints the table of variables alone");
  if (values.count("json") != 0) options.json = values["json"].as<std::string>();
  return options;
}

std::string run_help() {
  std::ostringstream out;
  out << "weft-launch -n N [options] [--] PROGRAM [ARGUMENTS]\n"
         "weft-launch --hosts FILE [-n N] [options] [--] PROGRAM [ARGUMENTS]\n"
         "weft-launch --nodes N --node I --address HOST:PORT -n RANKS [options] [--] PROGRAM [ARGUMENTS]\n"
         "weft-launch -n N [--hosts FILE] [options] [--] mpirun [ITS OPTIONS] PROGRAM [ARGUMENTS]\n"
         "weft-launch env [--document] [--json FILE]\n"
         "weft-launch lint FILE...\n\n"
         "Starts N ranks of PROGRAM on this machine or on several hosts without MPI, watches them and ends "
         "with their status: 0, "
         "or that of\n"
         "the first rank that failed (75 if a signal killed it). Then the other ranks have "
      << to_notice.count() << " s to notice, " << to_end.count() << " s to end after\n"
      << "SIGTERM, and are killed. SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 are passed on; a second SIGINT or "
         "SIGTERM kills.\n"
         "Hosts need weft-launch, PROGRAM and this folder at the same paths. Their ranks get WEFT_*, NCCL_*, "
         "UCX_*, "
         "OMP_*, PATH,\nLD_LIBRARY_PATH and PYTHONPATH of this environment; the job's token goes through the "
         "agent's "
         "standard input.\n"
         "With --min-ranks or --max-restarts a job that failed starts again, unless its status is 42; the "
         "program goes on from its last "
         "checkpoint.\n"
         "A host that is lost is left out. When it is back, the ranks get SIGUSR1 (save, and end with 75) "
         "and start again with it.\n"
         "If PROGRAM is mpirun (Open MPI's), weft-launch adds -n, and --host with the hosts that are there, "
         "and "
         "starts it again.\n"
         "`env` prints which launcher is detected in this environment, `lint` what is wrong with a manifest "
         "of "
         "Kubernetes; they start nothing.\n\n"
      << run_description()
      << "\nExamples:\n"
         "  weft-launch -n 2 --timeout 600 weft-scaling --strategies ddp,zero2\n"
         "  weft-launch -n 4 --watch weft-scaling --strategies ddp --metrics 9400\n"
         "  weft-launch --hosts hosts.txt -n 16 -x HF_HOME ./train\n"
         "  weft-launch --hosts hosts.txt -n 16 --min-ranks 8 ./train --checkpoint /shared/run\n\n"
         "Exit status: that of the ranks; 42 wrong usage, 75 killed or timed out, 141 its standard output "
         "has no reader, 70 a fault of the "
         "system.\n";
  return std::move(out).str();
}

std::string env_help() {
  std::ostringstream out;
  out << "weft-launch env [options]\n\n"
         "Prints what each launcher's variables say about this process and which of them holds.\n\n"
      << env_description() << "\nExample:\n  mpirun -n 2 weft-launch env\n";
  return std::move(out).str();
}

}  // namespace weft::launch
