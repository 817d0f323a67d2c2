#pragma once
// Starts the ranks of a job on this machine, watches them, and leaves no process behind.
//
// It runs in one thread, which must be the only one of the process, because ranks are forked from it. Each
// rank has a process group of its own, so that processes started by a rank end with it. Where weft-launch itself
// is killed, ranks die with it, and a guardian ends what they started.
//
//   Supervisor supervisor(options, inherited_environment);
//   return supervisor.run();                // status of the first rank that failed, 0 when none did

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "guardian.hpp"
#include "memory_limit.hpp"
#include "options.hpp"
#include "weft/core/deadline.hpp"

namespace weft::launch {

class Supervisor {
 public:
  Supervisor(RunOptions options, std::vector<std::string> inherited);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Returns when every rank has ended. @throws Error (usage) when the program cannot be started
  int run();

 private:
  /// The stages of ending a failed job.
  enum class Stage { running, noticing, asked, killed };

  struct Rank {
    pid_t pid = -1;
    bool running = false;
  };

  void start(int rank);
  void reap();
  void ended(int rank, int code, int status);
  void handle(int signal);
  void advance();
  void fail(int status);
  void signal_all(int signal) const;
  std::string running_ranks() const;

  const RunOptions options_;
  const std::vector<std::string> inherited_;
  std::string folder_;  ///< private to the job; the ranks meet in it
  std::string token_;   ///< known to the job alone
  std::optional<Guardian> guardian_;
  MemoryLimit memory_limit_;
  sigset_t watched_{};
  sigset_t before_{};
  std::vector<Rank> ranks_;
  int left_ = 0;
  int status_ = 0;
  int interrupts_ = 0;
  Stage stage_ = Stage::running;
  Deadline next_ = Deadline::never();  ///< of the stage
};

}  // namespace weft::launch
