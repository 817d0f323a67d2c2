#pragma once
// Ranks on several hosts, each host's started and watched there by `weft-launch host`, which an agent (ssh) starts.
//
// All hosts need this program, the job's program and its folder at the same paths. A host that does not answer in time, or whose agent
// ends before its ranks have, is lost with them.

#include <deque>
#include <optional>
#include <set>

#include "host_agent.hpp"
#include "host_wire.hpp"
#include "hosts.hpp"
#include "output.hpp"

namespace weft::launch {

class RemoteRanks final : public Ranks {
 public:
  RemoteRanks(Job job, const std::vector<Host>& hosts, const std::vector<Share>& shares, AgentOptions agents,
              Output& output, const Guardian& guardian, const Signals& signals);
  /// Gives hosts a moment to end by themselves, so that their ports are free for the next start.
  ~RemoteRanks() override;
  RemoteRanks(const RemoteRanks&) = delete;
  RemoteRanks& operator=(const RemoteRanks&) = delete;

  void start() override;
  std::vector<int> running() const override;
  void signal_all(int signal) override;
  void watch(std::vector<pollfd>& all) const override;
  Deadline next() const override;
  std::vector<Ended> collect() override;

 private:
  struct Remote {
    std::string name{};
    Share share{};
    std::set<int> running{};
    std::optional<HostAgent> agent{};
  };

  void receive(Remote& remote, std::vector<Ended>& all) const;
  bool take_frame(Remote& remote, std::vector<Ended>& all) const;
  void lose(Remote& remote, const std::string& why, int status, std::vector<Ended>& all) const;

  const Job job_;
  const AgentOptions agents_;
  Output& output_;
  const Guardian& guardian_;
  const Signals& signals_;
  std::deque<Remote> remotes_;  // do not move
  Deadline to_answer_ = Deadline::never();
  Deadline to_die_ = Deadline::never();
};

}  // namespace weft::launch
