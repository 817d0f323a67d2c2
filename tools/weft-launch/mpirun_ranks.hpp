#pragma once
// Ranks that Open MPI's mpirun starts: one process here, which is told how many ranks and on which hosts, and whose end is theirs.
//
// mpirun hands SIGUSR1 on to the ranks, and ends them when it gets SIGTERM. It names the host that it lost, but not in its status: after
// a failure all hosts are asked whether they are there.

#include <optional>

#include "child_process.hpp"
#include "hosts.hpp"
#include "local_ranks.hpp"
#include "ranks.hpp"

namespace weft::launch {

/// Whether a program, with its arguments, is an mpirun. @throws Error (usage) if it is, and its arguments set what weft-launch sets
bool is_mpirun(const std::vector<std::string>& program);

class MpirunRanks final : public Ranks {
 public:
  /// @param job without rendezvous and token: ranks meet by MPI @param hosts with slots; if empty, mpirun chooses
  MpirunRanks(const Job& job, const std::vector<Host>& hosts, const Guardian& guardian,
              const Signals& signals);

  void start() override;
  std::vector<int> running() const override;
  void signal_all(int signal) override;
  void watch(std::vector<pollfd>& /*all*/) const override {}
  std::vector<Ended> collect() override;

 private:
  const int size_;
  ChildOptions options_;
  const Guardian& guardian_;
  const Signals& signals_;
  std::optional<ChildProcess> process_{};
};

}  // namespace weft::launch
