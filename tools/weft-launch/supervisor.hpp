#pragma once
// Watches the ranks of a job, passes signals on to them, and ends the job when one fails.
//
//   Supervisor supervisor(ranks, signals, timeout);
//   return supervisor.run();                // status of the first rank that failed, 0 when none did

#include <chrono>
#include <optional>
#include <string>

#include "ranks.hpp"
#include "signals.hpp"
#include "weft/core/deadline.hpp"

namespace weft::launch {

class Supervisor {
 public:
  /// @param timeout of the whole job
  Supervisor(Ranks& ranks, Signals& signals, std::optional<std::chrono::nanoseconds> timeout)
      : ranks_(ranks), signals_(signals), timeout_(timeout) {}

  /// Starts the ranks, and returns when every one has ended. @throws Error (usage) when the program cannot be started
  int run();

 private:
  /// The stages of ending a failed job.
  enum class Stage { running, noticing, asked, killed };

  void wait(const Deadline& job);
  void handle(int signal);
  void note(const Ended& ended);
  void advance();
  void fail(int status);
  /// Asks all ranks to end.
  void ask();
  std::string running_ranks() const;

  Ranks& ranks_;
  Signals& signals_;
  const std::optional<std::chrono::nanoseconds> timeout_;
  int status_ = 0;
  int interrupts_ = 0;
  Stage stage_ = Stage::running;
  Deadline next_ = Deadline::never();  ///< of the stage
};

/// One line on standard error.
void say(const std::string& line);

}  // namespace weft::launch
