#pragma once
// One run of the user's command: a process group of its own, which ends with the run, with its deadline, and with this program.

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace weft::report {

struct TrialRun {
  std::string output{};  ///< standard output, at most 16 MiB
  std::string
      problem{};  ///< why it is no measurement: its status, a signal, its deadline; with its last line
};

/// @param words the command; PATH is searched. @param variables of it, beside those of this process
/// @throws Error (usage) where it cannot be started
TrialRun run_trial(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables,
                   std::chrono::duration<double> deadline);

/// From any thread: ends what run_trial() has started, at once. For where a signal ends this program.
void end_trial();

}  // namespace weft::report
