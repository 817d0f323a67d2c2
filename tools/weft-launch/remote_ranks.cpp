#include "remote_ranks.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "options.hpp"
#include "supervisor.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

constexpr std::chrono::seconds to_close{1};

std::string ranks_text(const std::set<int>& ranks) {
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (const int rank : ranks) words += text(rank == *ranks.begin() ? "" : ", ", rank);
  return words;
}

/// The status of the job when a host is lost: the agent's status if it is one of weft's, otherwise that of a lost rank.
int status_of(const ChildProcess::End& end) {
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::system}) {
    if (!end.by_signal && end.status == exit_code(kind)) return end.status;
  }
  return exit_code(ErrorKind::peer_lost);
}

}  // namespace

RemoteRanks::RemoteRanks(Job job, const std::vector<Host>& hosts, const std::vector<Share>& shares,
                         AgentOptions agents, Output& output, const Guardian& guardian,
                         const Signals& signals)
    : job_(std::move(job)),
      agents_(std::move(agents)),
      output_(output),
      guardian_(guardian),
      signals_(signals) {
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (shares[i].count == 0) continue;
    Remote& remote = remotes_.emplace_back();
    remote.name = hosts[i].name;
    remote.share = shares[i];
    for (int rank = 0; rank < shares[i].count; ++rank) remote.running.insert(shares[i].first + rank);
  }
}

RemoteRanks::~RemoteRanks() {
  for (Remote& remote : remotes_) {
    if (remote.agent) remote.agent->close();
  }
  const Deadline deadline = Deadline::in(to_close);
  for (Remote& remote : remotes_) {
    while (remote.agent && remote.agent->is_running() && !remote.agent->ended() && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void RemoteRanks::start() {
  to_answer_ = Deadline::in(agents_.to_answer);
  for (Remote& remote : remotes_) {
    remote.agent.emplace(remote.name, agents_, guardian_, signals_);
    remote.agent->send(to_line({job_, remote.share, agents_.folder}));
  }
}

std::vector<int> RemoteRanks::running() const {
  std::vector<int> ranks;
  for (const Remote& remote : remotes_)
    ranks.insert(ranks.end(), remote.running.begin(), remote.running.end());
  return ranks;
}

void RemoteRanks::signal_all(int signal) {
  for (Remote& remote : remotes_) {
    if (remote.running.empty()) continue;
    remote.agent->send(text(signal, '\n'));
  }
  if (signal == SIGKILL) to_die_ = Deadline::in(to_end);
}

void RemoteRanks::watch(std::vector<pollfd>& all) const {
  for (const Remote& remote : remotes_) {
    if (!remote.running.empty()) remote.agent->watch(all);  // the pipes of a lost host are readable for ever
  }
}

Deadline RemoteRanks::next() const {
  return to_answer_.end() < to_die_.end() ? to_answer_ : to_die_;
}

std::vector<Ended> RemoteRanks::collect() {
  std::vector<Ended> all;
  for (Remote& remote : remotes_) {
    if (remote.running.empty()) continue;
    remote.agent->send();
    const auto end = remote.agent->ended();
    receive(remote, all);
    if (end && !remote.running.empty()) {
      lose(remote, "its agent " + words_of(*end), status_of(*end), all);
    } else if (!remote.agent->has_answered() && to_answer_.passed()) {
      const auto seconds = std::chrono::duration<double>(agents_.to_answer).count();
      lose(remote, text("it has not answered within ", seconds, " s"), exit_code(ErrorKind::timeout), all);
    } else if (to_die_.passed()) {
      lose(remote, "it does not say that they have been killed", exit_code(ErrorKind::timeout), all);
    }
  }
  const auto answered = [](const Remote& remote) {
    return remote.running.empty() || remote.agent->has_answered();
  };
  if (std::ranges::all_of(remotes_, answered)) to_answer_ = Deadline::never();
  return all;
}

void RemoteRanks::lose(Remote& remote, const std::string& why, int status, std::vector<Ended>& all) const {
  all.push_back({-1, status,
                 text("host ", remote.name, " with ", ranks_text(remote.running), " is lost: ", why), 0,
                 remote.name});
  remote.running.clear();
  remote.agent->kill();
}

void RemoteRanks::receive(Remote& remote, std::vector<Ended>& all) const {
  while (remote.agent->hear()) {
    while (remote.agent->has_answered() && take_frame(remote, all)) {
    }
  }
}

/// @returns whether there was a whole one
bool RemoteRanks::take_frame(Remote& remote, std::vector<Ended>& all) const {
  std::string& heard = remote.agent->heard();
  Frame frame;
  if (heard.size() < sizeof(frame)) return false;
  std::memcpy(&frame, heard.data(), sizeof(frame));
  if (frame.bytes > most_framed || frame.rank < remote.share.first ||
      frame.rank >= remote.share.first + remote.share.count)
    throw Error(ErrorKind::mismatch, text("host ", remote.name, " sends frames that make no sense"),
                "see whether its agent writes something of its own to standard output");
  if (heard.size() < sizeof(frame) + frame.bytes) return false;
  const std::string payload = heard.substr(sizeof(frame), frame.bytes);
  heard.erase(0, sizeof(frame) + frame.bytes);
  if (frame.kind == FrameKind::output || frame.kind == FrameKind::errors) {
    output_.hear(frame.rank, frame.kind == FrameKind::output ? 1 : 2, payload);
  } else if (remote.running.erase(frame.rank) != 0) {
    output_.end(frame.rank);
    const std::size_t line = std::min(payload.find('\n'), payload.size());
    const Finished finished{frame.rank,
                            std::atoi(payload.c_str()),
                            {frame.kind == FrameKind::killed, frame.number},
                            payload.substr(std::min(line + 1, payload.size()))};
    all.push_back(finished.described(" on " + remote.name));
  }
  return true;
}

}  // namespace weft::launch
