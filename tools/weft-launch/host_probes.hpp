#pragma once
// Asks hosts that were lost whether they are back: starts `weft-launch host` there, which greets and has no job. Again and again, some
// seconds apart, until a host answers.

#include <deque>
#include <set>
#include <string>

#include "host_agent.hpp"
#include "weft/core/deadline.hpp"

namespace weft::launch {

class HostProbes {
 public:
  HostProbes(const std::set<std::string>& hosts, const AgentOptions& agents, const Guardian& guardian,
             const Signals& signals);

  /// As Ranks::watch() and next().
  void watch(std::vector<pollfd>& all) const;
  Deadline next() const;
  /// All hosts that have answered so far.
  const std::set<std::string>& collect();

 private:
  struct Probe {
    std::string host{};
    std::optional<HostAgent> agent{};
    Deadline next = Deadline::never();  ///< of the agent's answer, or of the next agent
  };
  void advance(Probe& probe);
  void put_off(Probe& probe);

  const AgentOptions& agents_;
  const Guardian& guardian_;
  const Signals& signals_;
  std::deque<Probe> probes_;  // do not move
  std::set<std::string> back_;
};

}  // namespace weft::launch
