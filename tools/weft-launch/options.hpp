#pragma once
// The command line of weft-launch, as values.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace weft::launch {

// How long the other ranks may run after a rank has failed; the help names these times.
constexpr std::chrono::seconds to_notice{4};          ///< to notice it, and to say so
constexpr std::chrono::seconds to_notice_another{2};  ///< the same after one more that failed
constexpr std::chrono::seconds to_end{5};             ///< to end after SIGTERM
constexpr int most_ranks = 4096;

/// When a job is started again after a failure.
struct RestartOptions {
  int min_ranks = 0;  ///< the remaining hosts must take this many; 0: all ranks
  int most = 3;       ///< restarts after failures
  /// How long lost hosts may take to return if the rest takes fewer than min_ranks.
  std::chrono::nanoseconds to_return{};
};

struct RunOptions {
  int ranks = 0;                                    ///< 0: as many as the hosts have slots
  std::optional<std::chrono::nanoseconds> timeout;  ///< of the whole job
  std::vector<std::string> program;                 ///< with its arguments; a path that exists
  std::optional<std::string> hosts{};               ///< a file
  std::vector<std::string> agent{};                 ///< the words before a host's name; empty: ssh
  std::string address{};  ///< HOST or HOST:PORT where rank 0 listens; empty: the first host
  int nodes = 1;  ///< how many weft-launch make up the job, each with `ranks` ranks; this is number `node`
  int node = 0;
  std::vector<std::string> exports{};               ///< names of variables that ranks on other hosts get, too
  std::optional<RestartOptions> restarts{};         ///< nullopt: a failure ends the job
  std::optional<std::chrono::nanoseconds> grace{};  ///< from a notice to the end; nullopt: without end
  bool by_mpirun = false;                           ///< the program is mpirun, which starts the ranks
  std::optional<std::string> watch{};               ///< path of weft-report, which watches the job
  std::optional<int> watch_port{};                  ///< of the first rank of a host, which serves its metrics
  bool quiet = false;                               ///< no line about the job on a terminal
  bool labels = false;                              ///< lines that ranks write begin with their rank
  bool help = false;
};

struct EnvOptions {
  bool document = false;
  std::optional<std::string> json;  ///< a file, or - for standard output
  bool help = false;
};

/// All words from the first one that is not an option of weft-launch belong to the program.
/// @throws Error (usage) naming the argument
RunOptions parse_run(const std::vector<std::string>& arguments);
EnvOptions parse_env(const std::vector<std::string>& arguments);

/// Searches PATH as a shell does. @throws Error (usage)
std::string find_program(const std::string& name);

std::string run_help();
std::string env_help();

}  // namespace weft::launch
