#include "remote_ranks.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "options.hpp"
#include "supervisor.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

/// As one word of a shell.
std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

bool is_this_machine(const std::string& name) {
  std::array<char, 256> own{};
  return name == "localhost" || (gethostname(own.data(), own.size() - 1) == 0 && name == own.data());
}

std::string ranks_text(const std::set<int>& ranks) {
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (const int rank : ranks) words += text(rank == *ranks.begin() ? "" : ", ", rank);
  return words;
}

/// The status of the job when a host is lost: its own where that is one of weft's, else that of a lost rank.
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

void RemoteRanks::start() {
  to_answer_ = Deadline::in(agents_.to_answer);
  for (Remote& remote : remotes_) start(remote);
}

std::vector<std::string> RemoteRanks::command(const Remote& remote) const {
  if (agents_.command.empty() && is_this_machine(remote.name)) return {agents_.launcher, "host"};
  std::vector<std::string> words = agents_.command;
  if (words.empty()) words = {find_program("ssh"), "-T", "-o", "BatchMode=yes"};
  words.push_back(remote.name);
  words.push_back(quoted(agents_.launcher));  // a shell there takes it apart
  words.emplace_back("host");
  return words;
}

void RemoteRanks::start(Remote& remote) {
  int orders[2];
  int answers[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) != 0)
    throw system_error("cannot create a socket");
  remote.orders.reset(orders[0]);
  const Descriptor its_orders(orders[1]);
  if (pipe2(answers, O_CLOEXEC) != 0) throw system_error("cannot create a pipe");
  remote.answers.reset(answers[0]);
  const Descriptor its_answers(answers[1]);
  fcntl(answers[0], F_SETFL, O_NONBLOCK);
  remote.agent.emplace(
      ChildOptions{command(remote), agents_.environment, {its_orders.get(), its_answers.get(), -1}},
      guardian_, signals_);
  remote.to_send = to_line({job_, remote.share, agents_.folder});
  send(remote);
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
    remote.to_send += text(signal, '\n');
    send(remote);
  }
  if (signal == SIGKILL) to_die_ = Deadline::in(to_end);
}

void RemoteRanks::watch(std::vector<pollfd>& all) const {
  for (const Remote& remote : remotes_) {
    if (remote.answers.get() >= 0) all.push_back({remote.answers.get(), POLLIN, 0});
    if (!remote.to_send.empty()) all.push_back({remote.orders.get(), POLLOUT, 0});
  }
}

Deadline RemoteRanks::next() const {
  return to_answer_.end() < to_die_.end() ? to_answer_ : to_die_;
}

std::vector<Ended> RemoteRanks::collect() {
  std::vector<Ended> all;
  for (Remote& remote : remotes_) {
    if (remote.running.empty()) continue;
    send(remote);
    const auto end = remote.agent->ended();
    receive(remote, all);
    if (end && !remote.running.empty()) {
      const char* const how = end->by_signal ? "was killed by signal " : "ended with status ";
      lose(remote, text("its agent ", how, end->status), status_of(*end), all);
    } else if (!remote.has_answered && to_answer_.passed()) {
      const auto seconds = std::chrono::duration<double>(agents_.to_answer).count();
      lose(remote, text("it has not answered within ", seconds, " s"), exit_code(ErrorKind::timeout), all);
    } else if (to_die_.passed()) {
      lose(remote, "it does not say that they have been killed", exit_code(ErrorKind::timeout), all);
    }
  }
  const auto answered = [](const Remote& remote) { return remote.has_answered || remote.running.empty(); };
  if (std::ranges::all_of(remotes_, answered)) to_answer_ = Deadline::never();
  return all;
}

void RemoteRanks::lose(Remote& remote, const std::string& why, int status, std::vector<Ended>& all) const {
  all.push_back(
      {-1, status, text("host ", remote.name, " with ", ranks_text(remote.running), " is lost: ", why)});
  remote.running.clear();
  remote.to_send.clear();
  remote.agent->signal(SIGKILL);  // its host ends the ranks when the agent's connection closes
}

// An agent that has ended takes no more; collect() sees that.
void RemoteRanks::send(Remote& remote) const {
  while (!remote.to_send.empty()) {
    const ssize_t got = ::send(remote.orders.get(), remote.to_send.data(), remote.to_send.size(),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got < 0) remote.to_send.clear();
    if (got > 0) remote.to_send.erase(0, static_cast<std::size_t>(got));
  }
}

void RemoteRanks::receive(Remote& remote, std::vector<Ended>& all) const {
  std::array<char, 64 << 10> piece;
  while (remote.answers.get() >= 0) {
    const ssize_t got = read(remote.answers.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) remote.answers.reset();
    if (got <= 0) return;
    remote.heard.append(piece.data(), static_cast<std::size_t>(got));
    if (!remote.has_answered) greet(remote);
    while (remote.has_answered && take_frame(remote, all)) {
    }
  }
}

/// What a login shell prints before is passed over.
void RemoteRanks::greet(Remote& remote) const {
  constexpr std::size_t most = 1 << 20;
  const std::size_t begin = remote.heard.find(greeting_mark);
  const std::size_t end = begin == std::string::npos ? begin : remote.heard.find('\n', begin);
  if (end == std::string::npos) {
    if (remote.heard.size() > most)
      throw Error(ErrorKind::usage,
                  text("host ", remote.name, " answers something else than weft-launch does"),
                  text("see what runs there: ", agents_.command.empty() ? "ssh" : agents_.command.front(),
                       ' ', remote.name, ' ', agents_.launcher, " host"));
    return;
  }
  const std::string theirs = remote.heard.substr(begin, end + 1 - begin);
  if (theirs != greeting()) {
    const auto version = [](const std::string& line) {
      return line.substr(greeting_mark.size(), line.size() - greeting_mark.size() - 1);
    };
    throw Error(ErrorKind::mismatch,
                text("host ", remote.name, " has weft-launch ", version(theirs), ", this machine ",
                     version(greeting())),
                "install the same version on every host");
  }
  remote.heard.erase(0, end + 1);
  remote.has_answered = true;
}

/// @returns whether there was a whole one
bool RemoteRanks::take_frame(Remote& remote, std::vector<Ended>& all) const {
  Frame frame;
  if (remote.heard.size() < sizeof(frame)) return false;
  std::memcpy(&frame, remote.heard.data(), sizeof(frame));
  if (frame.bytes > most_framed || frame.rank < remote.share.first ||
      frame.rank >= remote.share.first + remote.share.count)
    throw Error(ErrorKind::mismatch, text("host ", remote.name, " sends frames that make no sense"),
                "see whether its agent writes something of its own to standard output");
  if (remote.heard.size() < sizeof(frame) + frame.bytes) return false;
  const std::string payload = remote.heard.substr(sizeof(frame), frame.bytes);
  remote.heard.erase(0, sizeof(frame) + frame.bytes);
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
