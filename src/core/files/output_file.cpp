#include "core/files/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "core/base/file_limit.hpp"
#include "core/base/strings.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

/// The file itself, where the path is a link to it.
std::string behind_links(const std::string& path) {
  std::error_code unknown;
  const auto target = std::filesystem::canonical(path, unknown);
  return unknown ? path : target.string();
}

/// What is no regular file. A pipe that no process opens to read within 2 s is an error (ENXIO), not a wait without end.
int open_as_it_is(const std::string& path) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(2));
  int file = -1;
  while ((file = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) < 0) {
    if (errno != EINTR && (errno != ENXIO || deadline.passed())) return -1;
    if (errno == ENXIO) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  (void)fcntl(file, F_SETFL, O_WRONLY);  // the writes wait for the reader
  return file;
}

}  // namespace

OutputFile::OutputFile(const std::string& path, std::string called)
    : path_(behind_links(path)), called_(std::move(called)) {
  constexpr mode_t anyone = 0666;  // less what umask takes
  struct stat there {};
  const bool exists = stat(path_.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) fail(EISDIR);
  if (exists && !S_ISREG(there.st_mode)) {
    file_.reset(open_as_it_is(path_));
  } else {
    if (exists && access(path_.c_str(), W_OK) != 0) fail(errno);
    draft_ = text(path_, ".part-", getpid());
    int draft = -1;
    do {
      draft =
          open(draft_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, anyone);
    } while (draft < 0 && errno == EINTR);
    file_.reset(draft);
  }
  if (file_.get() < 0) {
    draft_.clear();
    fail(errno);
  }
  if (exists && !draft_.empty()) (void)fchmod(file_.get(), there.st_mode & 07777U);
}

bool is_flushed(int file) {
  int status = 0;
  do {
    status = fsync(file);
  } while (status != 0 && errno == EINTR);
  return status == 0;
}

void OutputFile::fail(int error) const {
  throw Error(ErrorKind::usage,
              text(called_,
                   ": cannot write it: ", error == ENXIO ? "no process reads from it" : std::strerror(error)),
              usual_advice(error));
}

void OutputFile::add(std::string_view content) {
  if (file_.get() < 0) throw Error(ErrorKind::internal, text(called_, " is written twice"));
  try {
    write_all(file_.get(), content, called_);
  } catch (...) {
    discard();
    throw;
  }
}

void OutputFile::finish() {
  // The name changes when the content is on the disk, or a crash could leave the name without it.
  if (!draft_.empty() && (!is_flushed(file_.get()) || std::rename(draft_.c_str(), path_.c_str()) != 0)) {
    const Error failed = system_error(text("cannot write ", called_));
    discard();
    throw failed;
  }
  draft_.clear();
  file_.reset();
}

void OutputFile::discard() noexcept {
  if (!draft_.empty()) unlink(draft_.c_str());
  draft_.clear();
  file_.reset();
}

void write_all(int file, std::string_view content, const std::string& called) {
  const FileLimitIsAnError limit;
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(text("cannot write ", called));
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace weft::detail
