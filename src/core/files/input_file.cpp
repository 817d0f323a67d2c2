#include "core/files/input_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/memory/host_memory.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr int wait_for_writer_ms = 2000;
constexpr std::size_t worth_a_look = std::size_t{16} << 20;  // at what memory is left

constexpr const char* standard_input = "/dev/stdin";

bool is_null_device(const struct stat& there) {
  return S_ISCHR(there.st_mode) && there.st_rdev == makedev(1, 3);
}

/// Why this is not read; null where it is.
const char* refusal(const struct stat& there, Source source) {
  const bool any = source == Source::file_or_pipe;
  if (S_ISREG(there.st_mode) || (any && (S_ISFIFO(there.st_mode) || is_null_device(there)))) return nullptr;
  if (S_ISDIR(there.st_mode)) return std::strerror(EISDIR);
  if (S_ISFIFO(there.st_mode)) return "it is a pipe; name a regular file";
  if (S_ISSOCK(there.st_mode)) return "it is a socket; name a regular file";
  return any ? "it is a device; name a file or a pipe" : "it is a device; name a regular file";
}

/// Without waiting for another process, and without making a terminal this process's own.
int open_now(const std::string& path) {
  int file = -1;
  do {
    file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  } while (file < 0 && errno == EINTR);
  return file;
}

}  // namespace

InputFile::InputFile(const std::string& path, Source source) {
  struct stat there {};
  if (source == Source::file_or_pipe && path == standard_input) {
    take(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0), source);
  } else if (stat(path.c_str(), &there) != 0) {
    is_missing_ = errno == ENOENT;
    problem_ = std::strerror(errno);
  } else if (const char* const why = refusal(there, source)) {
    problem_ = why;
  } else {
    take(open_now(path), source);
    // What is there now may be something else than before.
    if (is_open() && fstat(file_.get(), &there) == 0) {
      if (const char* const now = refusal(there, source)) problem_ = now;
    }
    if (!problem_.empty()) file_.reset();
  }
}

void InputFile::take(int file, Source source) {
  is_missing_ = file < 0 && errno == ENOENT;
  struct stat there {};
  if (file < 0 || fstat(file, &there) != 0) {
    problem_ = std::strerror(errno);
    return;
  }
  file_.reset(file);
  if (S_ISREG(there.st_mode)) bytes_ = static_cast<std::uint64_t>(there.st_size);
  if (S_ISDIR(there.st_mode)) problem_ = refusal(there, source);
  struct statfs system {};
  awaits_writer_ = S_ISFIFO(there.st_mode) && fstatfs(file, &system) == 0 && system.f_type != PIPEFS_MAGIC;
  if (!problem_.empty()) file_.reset();
}

/// @returns whether there are bytes, or an end, within `ms`; for ever: -1
bool InputFile::wait(int ms) const {
  pollfd here{file_.get(), POLLIN, 0};
  int ready = -1;
  do {
    ready = poll(&here, 1, ms);
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) throw system_error("cannot read it");
  return ready > 0;
}

std::size_t InputFile::read(char* space, std::size_t size) {
  std::size_t have = 0;
  while (have < size) {
    const ssize_t count = ::read(file_.get(), space + have, size - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) throw system_error("cannot read it");
    if (count < 0) (void)wait(-1);  // a writer that has nothing yet
    if (count == 0 && !awaits_writer_) break;
    if (count == 0 && waited_) throw Error(ErrorKind::system, "no process writes to this pipe");
    if (count == 0) waited_ = !wait(wait_for_writer_ms);
    awaits_writer_ = awaits_writer_ && count == 0 && waited_;
    if (count > 0) have += static_cast<std::size_t>(count);
  }
  return have;
}

std::size_t InputFile::read_at(std::uint64_t at, char* space, std::size_t size) const {
  std::size_t have = 0;
  while (have < size) {
    const ssize_t count = pread(file_.get(), space + have, size - have, static_cast<off_t>(at + have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("cannot read it");
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  return have;
}

std::string read_input(const std::string& path, const std::string& called, InputLimits limits) {
  InputFile file(path, limits.source);
  if (!file.is_open()) throw Error(ErrorKind::usage, text(called, ": cannot read it: ", file.problem()));
  const auto too_long = [&] {
    return Error(ErrorKind::usage, text(called, ": it has more than ", limits.most, " bytes"));
  };
  if (file.bytes() > limits.most) throw too_long();
  const auto no_memory = [&] {
    return Error(ErrorKind::system, text(called, ": no memory for the ", file.bytes(), " bytes that it has"));
  };
  const auto left = file.bytes() > worth_a_look ? memory_left() : std::nullopt;
  if (left && file.bytes() > *left) throw no_memory();
  std::string content;
  try {
    // One byte more than there should be shows the end.
    content.resize(std::min<std::size_t>(limits.most, std::max<std::size_t>(file.bytes(), 4095)) + 1);
    std::size_t end = file.read(content.data(), content.size());
    for (; end == content.size(); end += file.read(content.data() + end, content.size() - end)) {
      if (end > limits.most) throw too_long();
      content.resize(std::min(limits.most + 1, 2 * end));
    }
    content.resize(end);
  } catch (const std::bad_alloc&) {
    throw no_memory();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) throw;
    throw Error(ErrorKind::usage, text(called, ": ", error.problem()));
  }
  return content;
}

}  // namespace weft::detail
