#include "host_probes.hpp"

#include <algorithm>

#include "live_line.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {

HostProbes::HostProbes(const std::set<std::string>& hosts, const AgentOptions& agents,
                       const Guardian& guardian, const Signals& signals)
    : agents_(agents), guardian_(guardian), signals_(signals) {
  for (const std::string& host : hosts) {
    probes_.emplace_back().host = host;
    probes_.back().next = Deadline::in({});
  }
}

void HostProbes::watch(std::vector<pollfd>& all) const {
  for (const Probe& probe : probes_) {
    if (probe.agent) probe.agent->watch(all);
  }
}

Deadline HostProbes::next() const {
  Deadline first = Deadline::never();
  for (const Probe& probe : probes_) {
    if (probe.next.end() < first.end()) first = probe.next;
  }
  return first;
}

const std::set<std::string>& HostProbes::collect() {
  for (Probe& probe : probes_) {
    if (back_.contains(probe.host)) continue;
    try {
      advance(probe);
    } catch (const Error& error) {  // another version: no reason to end a job that runs
      say(error.what());
      put_off(probe);
    }
  }
  return back_;
}

void HostProbes::advance(Probe& probe) {
  if (!probe.agent) {
    if (!probe.next.passed()) return;
    probe.next = Deadline::in(agents_.to_answer);
    probe.agent.emplace(probe.host, agents_, guardian_, signals_);
  }
  const bool has_ended = probe.agent->ended().has_value();
  while (!probe.agent->has_answered() && probe.agent->hear()) {
  }
  if (probe.agent->has_answered()) {
    back_.insert(probe.host);
    probe.agent.reset();
    probe.next = Deadline::never();
  } else if (has_ended || probe.next.passed()) {
    put_off(probe);
  }
}

void HostProbes::put_off(Probe& probe) {
  constexpr std::chrono::seconds pause{5};
  probe.agent.reset();
  probe.next = Deadline::in(pause);
}

}  // namespace weft::launch
