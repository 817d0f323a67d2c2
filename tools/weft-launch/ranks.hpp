#pragma once
// The ranks of a job as the supervisor sees them, wherever they run: on this machine (local_ranks), or on several
// hosts (remote_ranks). One thread.

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/descriptor.hpp"
#include "weft/core/deadline.hpp"

namespace weft::launch {

using detail::Descriptor;

/// A rank that has ended, or all ranks of a host that is lost.
struct Ended {
  int rank = -1;            ///< -1: several
  int status = 0;           ///< of the job, for its sake; 0: it has done well
  std::string what{};       ///< "rank 3 (pid 77) was killed by signal 9"
  int signal = 0;           ///< which killed it
  std::string lost_host{};  ///< empty: none
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// @throws Error (usage) when the program cannot be started
  virtual void start() = 0;
  /// The ranks that run, in ascending order.
  virtual std::vector<int> running() const = 0;
  virtual void signal_all(int signal) = 0;
  /// Adds the descriptors that become readable when there is something to collect; SIGCHLD is the other sign of it.
  virtual void watch(std::vector<pollfd>& all) const = 0;
  /// When to collect even if nothing happens.
  virtual Deadline next() const { return Deadline::never(); }
  /// Passes output on. @returns the ranks that have ended since the last call
  virtual std::vector<Ended> collect() = 0;
};

/// Called with what a rank wrote to a stream (1 or 2), in pieces of any length.
using Hear = std::function<void(int rank, int stream, std::string_view piece)>;

}  // namespace weft::launch
