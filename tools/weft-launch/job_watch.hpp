#pragma once
// `weft-report watch` beside a job, for --watch: a process that asks the job how far it is, and whose lines go to standard error. It lives as long as
// one start of the job, and what it says never alters the job's status.
//
//   JobWatch watch(watch_words(options, {{"", 4}}, inherited), inherited, guardian, signals);
//   Supervisor(ranks, signals, limits, live, nullptr, &watch).run();
//   watch.finish();                                       // its verdict

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "child_process.hpp"
#include "core/base/descriptor.hpp"
#include "options.hpp"

namespace weft::launch {

/// The ranks of a host, which serve their metrics on consecutive ports.
struct WatchedHost {
  std::string address{};  ///< empty: this machine
  int ranks = 0;
};

/// Its command line. Ranks are asked at RunOptions::watch_port, or at the PORT of --metrics PORT among the program's words, else NCCL's RAS; folders
/// are those of WEFT_FLIGHT_DIR, or TORCH_NCCL_DEBUG_INFO_TEMP_FILE, and of NCCL_INSPECTOR_DUMP_DIR.
/// @param options with `watch` @throws Error (usage) where nobody could be asked
std::vector<std::string> watch_words(const RunOptions& options, const std::vector<WatchedHost>& hosts,
                                     const std::vector<std::string>& environment);

class JobWatch {
 public:
  JobWatch(const std::vector<std::string>& words, const std::vector<std::string>& environment,
           const Guardian& guardian, const Signals& signals);

  /// What weft-launch says of a rank or host that has ended, which nobody else may. A watch that does not read is not waited for.
  void tell(const std::string& line) const;
  /// As those of Ranks.
  void watch(std::vector<pollfd>& all) const;
  void collect();
  /// The job has ended: a last look, which takes seconds where hosts do not answer.
  void finish();

 private:
  void pass_on(bool at_end);

  detail::Descriptor input_{};   ///< closed at the end of the job
  detail::Descriptor output_{};  ///< what it prints
  std::string begun_{};          ///< a line that has not ended
  std::optional<ChildProcess> process_{};
};

}  // namespace weft::launch
