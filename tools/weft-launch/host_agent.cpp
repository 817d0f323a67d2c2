#include "host_agent.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "host_wire.hpp"
#include "options.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

/// Quoted as one word of a shell.
std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

bool is_this_machine(const std::string& name) {
  std::array<char, 256> own{};
  return name == "localhost" || (gethostname(own.data(), own.size() - 1) == 0 && name == own.data());
}

std::vector<std::string> command(const std::string& host, const AgentOptions& agents) {
  if (agents.command.empty() && is_this_machine(host)) return {agents.launcher, "host"};
  std::vector<std::string> words = agents.command;
  if (words.empty()) words = {find_program("ssh"), "-T", "-o", "BatchMode=yes"};
  words.push_back(host);
  words.push_back(quoted(agents.launcher));  // a shell there takes it apart
  words.emplace_back("host");
  return words;
}

}  // namespace

HostAgent::HostAgent(std::string host, const AgentOptions& agents, const Guardian& guardian,
                     const Signals& signals)
    : host_(std::move(host)), agents_(agents) {
  int orders[2];
  int answers[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) != 0)
    throw system_error("cannot create a socket");
  orders_.reset(orders[0]);
  const Descriptor its_orders(orders[1]);
  if (pipe2(answers, O_CLOEXEC) != 0) throw system_error("cannot create a pipe");
  answers_.reset(answers[0]);
  const Descriptor its_answers(answers[1]);
  fcntl(answers[0], F_SETFL, O_NONBLOCK);
  process_.emplace(
      ChildOptions{command(host_, agents), agents.environment, {its_orders.get(), its_answers.get(), -1}},
      guardian, signals);
}

void HostAgent::send(const std::string& words) {
  to_send_ += words;
  while (!to_send_.empty()) {
    const ssize_t got = ::send(orders_.get(), to_send_.data(), to_send_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got < 0) to_send_.clear();
    if (got > 0) to_send_.erase(0, static_cast<std::size_t>(got));
  }
}

bool HostAgent::hear() {
  std::array<char, 64 << 10> piece;
  ssize_t got = 0;
  while (answers_.get() >= 0 && (got = read(answers_.get(), piece.data(), piece.size())) < 0 &&
         errno == EINTR) {
  }
  if (answers_.get() < 0 || got < 0) return false;
  if (got == 0) {
    answers_.reset();
    return false;
  }
  heard_.append(piece.data(), static_cast<std::size_t>(got));
  if (!has_answered_) greet();
  return true;
}

/// Skips what a login shell prints before the greeting.
void HostAgent::greet() {
  constexpr std::size_t most = 1 << 20;
  const std::size_t begin = heard_.find(greeting_mark);
  const std::size_t end = begin == std::string::npos ? begin : heard_.find('\n', begin);
  if (end == std::string::npos) {
    if (heard_.size() > most)
      throw Error(ErrorKind::usage, text("host ", host_, " answers something else than weft-launch does"),
                  text("see what runs there: ", agents_.command.empty() ? "ssh" : agents_.command.front(),
                       ' ', host_, ' ', agents_.launcher, " host"));
    return;
  }
  const std::string theirs = heard_.substr(begin, end + 1 - begin);
  if (theirs != greeting()) {
    const auto version = [](const std::string& line) {
      return line.substr(greeting_mark.size(), line.size() - greeting_mark.size() - 1);
    };
    throw Error(
        ErrorKind::mismatch,
        text("host ", host_, " has weft-launch ", version(theirs), ", this machine ", version(greeting())),
        "install the same version on every host");
  }
  heard_.erase(0, end + 1);
  has_answered_ = true;
}

void HostAgent::watch(std::vector<pollfd>& all) const {
  if (answers_.get() >= 0) all.push_back({answers_.get(), POLLIN, 0});
  if (!to_send_.empty()) all.push_back({orders_.get(), POLLOUT, 0});
}

std::string words_of(const ChildProcess::End& end) {
  return text(end.by_signal ? "was killed by signal " : "ended with status ", end.status);
}

}  // namespace weft::launch
