#pragma once
// Watches one start of a job's ranks, passes signals on to them, and ends them all when one fails.
//
//   return Supervisor(ranks, signals, {.job = Deadline::in(timeout)}).run().status;

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "host_probes.hpp"
#include "job_watch.hpp"
#include "live_line.hpp"
#include "ranks.hpp"
#include "signals.hpp"
#include "weft/core/deadline.hpp"

namespace weft::launch {

/// How long a job may take.
struct Limits {
  Deadline job = Deadline::never();  ///< over all of its starts
  /// How long ranks may run after a notice (SIGUSR1); nullopt: without limit.
  std::optional<std::chrono::nanoseconds> grace{};
};

/// How a start of a job ended.
struct Course {
  int status = 0;                ///< of the first rank that failed, 0 when none did
  bool told_to_end = false;      ///< by a signal, or because the job took too long
  bool made_room = false;        ///< for hosts that are back: the ranks were told to save and end
  std::set<std::string> lost{};  ///< hosts
  std::set<std::string> back{};
};

class Supervisor {
 public:
  /// @param lost_before asks lost hosts of an earlier start whether they are back; null if no host was lost @param watch beside the job; may be null
  Supervisor(Ranks& ranks, Signals& signals, Limits limits, LiveLine& live, HostProbes* lost_before = nullptr,
             JobWatch* watch = nullptr)
      : ranks_(ranks),
        signals_(signals),
        limits_(limits),
        live_(live),
        lost_before_(lost_before),
        watch_(watch) {}

  /// Starts the ranks, and returns when every one has ended. @throws Error (usage) when the program cannot be started
  Course run();

 private:
  /// The stages of ending a failed job.
  enum class Stage { running, saving, noticing, asked, killed };

  void wait();
  void handle(int signal);
  void greet_hosts();
  void give_notice();
  void note(const Ended& ended);
  void advance();
  void fail(int status);
  /// Asks all ranks to end.
  void ask();
  std::string running_ranks() const;

  Ranks& ranks_;
  Signals& signals_;
  const Limits limits_;
  LiveLine& live_;
  HostProbes* const lost_before_;
  JobWatch* const watch_;
  Course course_{};
  bool has_cause_ = false;  ///< whether a rank has failed that did not only lose another
  int interrupts_ = 0;
  Stage stage_ = Stage::running;
  Deadline next_ = Deadline::never();  ///< of the stage
};

}  // namespace weft::launch
