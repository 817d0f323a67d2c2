#include "output.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "weft/core/error.hpp"

namespace weft::launch {

constexpr std::size_t longest = 64 << 10;

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::write(fd, bytes.data(), bytes.size());
    if (got >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(got));
    } else if (errno == EAGAIN) {  // who shares it made it so
      pollfd room{fd, POLLOUT, 0};
      (void)poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void Output::hear(int rank, int stream, std::string_view piece) {
  std::string& begun = begun_[rank][static_cast<std::size_t>(stream - 1)];
  begun += piece;
  const std::size_t end = begun.rfind('\n');
  if (end != std::string::npos) {
    write(rank, stream, std::string_view(begun).substr(0, end + 1));
    begun.erase(0, end + 1);
  }
  if (begun.size() < longest) return;
  write(rank, stream, begun);
  begun.clear();
}

void Output::end(int rank) {
  for (const int stream : {1, 2}) {
    std::string& begun = begun_[rank][static_cast<std::size_t>(stream - 1)];
    if (!begun.empty()) write(rank, stream, begun + "\n");
    begun.clear();
  }
}

void Output::pass_on(int stream, std::string_view lines) {
  live_.take_away();
  if (stream == STDERR_FILENO) live_.hear(lines);
  if (!write_all(stream, lines) && stream == STDOUT_FILENO && failure_ == 0) failure_ = errno;
}

void Output::expect_written() const {
  if (failure_ == 0 || failure_ == EPIPE) return;
  errno = failure_;
  throw system_error("cannot write to standard output what ranks wrote");
}

void Output::write(int rank, int stream, std::string_view lines) {
  if (!labelled_) {
    pass_on(stream, lines);
    return;
  }
  const std::string label = text('[', rank, "] ");
  std::string labelled;
  while (!lines.empty()) {
    const std::size_t length = std::min(lines.find('\n'), lines.size() - 1) + 1;
    labelled.append(label).append(lines.substr(0, length));
    lines.remove_prefix(length);
  }
  pass_on(stream, labelled);
}

}  // namespace weft::launch
