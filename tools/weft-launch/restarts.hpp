#pragma once
// Whether a job starts again after it failed, and when.

#include <optional>
#include <string>

#include "membership.hpp"
#include "options.hpp"
#include "supervisor.hpp"

namespace weft::launch {

class Restarts {
 public:
  /// @param options nullopt: it does not
  explicit Restarts(const std::optional<RestartOptions>& options) : options_(options) {}

  /// Not after success, a signal that ends the job, wrong usage (status 42), and after more failures than may be. To start again for hosts
  /// that are back counts as no failure. Says why it does not, where a user may wonder.
  bool may_follow(const Course& course);
  /// Starts again so far.
  int made() const { return made_; }
  /// "starting again, after failure 1 of at most 3".
  std::string words() const;

 private:
  const std::optional<RestartOptions> options_;
  int made_ = 0;
  int failures_ = 0;
  bool made_room_ = false;
};

/// How hosts are probed, and until when.
struct Asking {
  const AgentOptions& agents;
  const Guardian& guardian;
  Signals& signals;
  Deadline job = Deadline::never();
};

/// Takes back hosts that answer: some seconds long, or until there are enough. @returns the status with which to end, where a signal came
/// @throws Error (timeout) if too few hosts are there in time, naming them
std::optional<int> await_hosts(Membership& members, const RestartOptions& options, const Asking& asking);

}  // namespace weft::launch
