#pragma once
// `weft-launch host` on a host, started there by an agent (ssh), and the pipes to it.

#include <poll.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "child_process.hpp"
#include "core/base/descriptor.hpp"

namespace weft::launch {

using detail::Descriptor;

/// How hosts are reached.
struct AgentOptions {
  std::vector<std::string> command;      ///< before the host's name; empty: ssh, and for this machine none
  std::string launcher;                  ///< the path of weft-launch
  std::string folder;                    ///< in which ranks start
  std::vector<std::string> environment;  ///< of the agents; NAME=VALUE
  std::chrono::nanoseconds to_answer{};  ///< what hosts have
};

class HostAgent {
 public:
  /// @throws Error (usage) when the agent cannot be started
  HostAgent(std::string host, const AgentOptions& agents, const Guardian& guardian, const Signals& signals);

  const std::string& host() const { return host_; }
  /// Never waits: bytes that the host does not take now go with the next call. An agent that has ended gets nothing.
  void send(const std::string& words = {});
  /// Reads a piece of what it says. @returns false: there is nothing now
  /// @throws Error (usage) if the other end is not weft-launch, (mismatch) if it is another version
  bool hear();
  /// Whether the greeting has arrived; what a login shell printed before it is skipped.
  bool has_answered() const { return has_answered_; }
  /// What has arrived since the greeting; the reader erases what it has taken.
  std::string& heard() { return heard_; }
  std::optional<ChildProcess::End> ended() { return process_->ended(); }
  bool is_running() const { return process_->is_running(); }
  /// No more orders: the host ends what it still does.
  void close() { orders_.reset(); }
  /// The host ends its ranks when the connection closes.
  void kill() const { process_->signal(SIGKILL); }
  /// Adds what is readable when there is something to hear, or writable when there is something to send.
  void watch(std::vector<pollfd>& all) const;

 private:
  void greet();

  const std::string host_;
  const AgentOptions& agents_;
  std::optional<ChildProcess> process_{};
  Descriptor orders_{};   ///< a socket to its standard input
  Descriptor answers_{};  ///< its standard output
  std::string to_send_{};
  std::string heard_{};
  bool has_answered_ = false;
};

/// "ended with status 3", "was killed by signal 9".
std::string words_of(const ChildProcess::End& end);

}  // namespace weft::launch
