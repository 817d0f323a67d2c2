#pragma once
// One process that a launcher starts: in a process group of its own, which ends with it, and with the launcher.

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "guardian.hpp"
#include "signals.hpp"

namespace weft::launch {

struct ChildOptions {
  std::vector<std::string> program;        ///< with its arguments; a path
  std::vector<std::string> environment;    ///< NAME=VALUE
  std::array<int, 3> streams{-1, -1, -1};  ///< what its standard streams become; -1: the launcher's own
};

class ChildProcess {
 public:
  struct End {
    bool by_signal;
    int status;
  };

  /// @throws Error (usage) when the program cannot be started, (system) when no process can
  ChildProcess(const ChildOptions& options, const Guardian& guardian, const Signals& signals);
  /// Kills what still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool is_running() const { return is_running_; }
  /// To its whole group.
  void signal(int signal) const;
  /// How the process ended, if it has ended since the last call. All processes that it started are then ended.
  std::optional<End> ended();

 private:
  const Guardian& guardian_;
  pid_t pid_ = -1;
  bool is_running_ = false;
};

}  // namespace weft::launch
