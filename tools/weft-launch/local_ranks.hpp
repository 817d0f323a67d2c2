#pragma once
// Ranks as processes of this machine.

#include <deque>
#include <optional>

#include "child_process.hpp"
#include "meeting_notice.hpp"
#include "memory_limit.hpp"
#include "ranks.hpp"

namespace weft::launch {

/// What all ranks of a job have in common.
struct Job {
  std::vector<std::string> program;    ///< with its arguments; a path
  std::vector<std::string> inherited;  ///< NAME=VALUE; what names a rank is left out
  int size = 0;                        ///< ranks of the job
  std::string rendezvous;
  std::string token;
};

/// Which of them run here.
struct Share {
  int first = 0;
  int count = 0;
};

/// A rank's process that has ended.
struct Finished {
  int rank = 0;
  int pid = 0;
  ChildProcess::End end{};
  std::string why{};  ///< beyond its status; may be empty

  /// @param place "", or " on b"
  Ended described(const std::string& place = {}) const;
};

class LocalRanks final : public Ranks {
 public:
  /// @param hear gets what they write; empty: they write where the launcher does
  LocalRanks(Job job, Share share, bool may_read_input, Hear hear, const Guardian& guardian,
             const Signals& signals);

  void start() override;
  std::vector<int> running() const override;
  void signal_all(int signal) override;
  void watch(std::vector<pollfd>& all) const override;
  std::vector<Ended> collect() override;
  /// collect(), in numbers.
  std::vector<Finished> finished();
  /// Ranks that are still meeting are being told that one has ended.
  bool is_telling() { return notice_.is_telling(); }

 private:
  struct Rank {
    int number = 0;
    std::optional<ChildProcess> process{};
    Descriptor output{};  ///< of its standard output, and of its standard error
    Descriptor errors{};
  };
  std::vector<std::string> environment_of(const Rank& rank) const;
  void start(Rank& rank, const Descriptor& nothing);
  void tell_others(const Finished& one);
  void pass_on(Rank& rank);
  void pass_on(const Rank& rank, int stream, Descriptor& from) const;

  const Job job_;
  const Share share_;
  const bool may_read_input_;
  const Hear hear_;
  const Guardian& guardian_;
  const Signals& signals_;
  MemoryLimit memory_limit_;
  MeetingNotice notice_;
  bool is_ending_ = false;  ///< by signals from here
  std::deque<Rank> ranks_;  // do not move
};

}  // namespace weft::launch
