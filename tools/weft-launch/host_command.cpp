#include "host_command.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "core/base/number.hpp"
#include "host_wire.hpp"
#include "output.hpp"
#include "supervisor.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

/// Standard input, by lines.
class Orders {
 public:
  /// Waits for it. @returns nothing at the end
  std::optional<std::string> next() {
    std::size_t end = 0;
    while ((end = begun_.find('\n')) == std::string::npos) {
      if (!read_more()) return std::nullopt;
    }
    std::string line = begun_.substr(0, end);
    begun_.erase(0, end + 1);
    return line;
  }
  bool has_line() const { return begun_.find('\n') != std::string::npos; }

 private:
  bool read_more() {
    std::array<char, 64 << 10> piece;
    ssize_t got = 0;
    while ((got = read(STDIN_FILENO, piece.data(), piece.size())) < 0 && errno == EINTR) {
    }
    if (got <= 0) return false;
    begun_.append(piece.data(), static_cast<std::size_t>(got));
    return true;
  }

  std::string begun_;
};

// Where the reader has gone SIGPIPE ends this process, and the guardian the ranks.
void send(FrameKind kind, int rank, int number, std::string_view payload) {
  const Frame frame{kind, rank, number, static_cast<std::uint32_t>(payload.size())};
  std::string bytes(sizeof(frame), '\0');
  std::memcpy(bytes.data(), &frame, sizeof(frame));
  bytes += payload;
  if (!write_all(STDOUT_FILENO, bytes)) throw system_error("cannot answer weft-launch");
}

void tell(const Finished& finished) {
  send(finished.end.by_signal ? FrameKind::killed : FrameKind::exited, finished.rank, finished.end.status,
       text(finished.pid, '\n', finished.why));
}

/// The variables of the host; variables of the job replace them.
std::vector<std::string> environment(const std::vector<std::string>& of_job) {
  std::vector<std::string> lines = of_job;
  for (char** own = environ; own != nullptr && *own != nullptr; ++own) {
    const std::string_view line = *own;
    const std::string_view name = line.substr(0, line.find('=') + 1);
    if (std::ranges::none_of(of_job, [&](const std::string& theirs) { return theirs.starts_with(name); }))
      lines.emplace_back(line);
  }
  return lines;
}

constexpr int to_look_again = 50;  // milliseconds between looks whether the other ranks have been told

void obey(const std::string& order, LocalRanks& ranks) {
  if (const auto signal = detail::number_of<int>(order)) ranks.signal_all(*signal);
}

}  // namespace

int run_host() {
  Signals signals;
  if (!write_all(STDOUT_FILENO, greeting())) throw system_error("cannot answer weft-launch");
  Orders orders;
  const auto line = orders.next();
  if (!line) return exit_code(ErrorKind::peer_lost);
  HostJob host = from_line(*line);
  host.job.inherited = environment(host.job.inherited);
  if (chdir(host.folder.c_str()) != 0) {
    throw system_error(text("cannot enter the folder ", host.folder),
                       "start the job in a folder that every host has");
  }
  const Guardian guardian("");
  const Hear hear = [](int rank, int stream, std::string_view piece) {
    send(stream == 1 ? FrameKind::output : FrameKind::errors, rank, 0, piece);
  };
  LocalRanks ranks(host.job, host.share, false, hear, guardian, signals);
  ranks.start();
  while (!ranks.running().empty() || ranks.is_telling()) {
    std::vector<pollfd> all{{signals.fd(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    ranks.watch(all);
    (void)poll(all.data(), all.size(), ranks.is_telling() ? to_look_again : -1);
    while (const auto signal = signals.take()) {
      if (*signal != SIGCHLD) ranks.signal_all(*signal);
    }
    while (all[1].revents != 0 || orders.has_line()) {
      all[1].revents = 0;
      const auto order = orders.next();
      if (!order) return exit_code(ErrorKind::peer_lost);  // and the ranks end
      obey(*order, ranks);
    }
    for (const Finished& finished : ranks.finished()) tell(finished);
  }
  return 0;
}

}  // namespace weft::launch
