#include "core/base/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/strings.hpp"
#include "core/files/file_limit.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

/// The file itself, where the path is a link to it.
std::string behind_links(const std::string& path) {
  std::error_code unknown;
  const auto target = std::filesystem::canonical(path, unknown);
  return unknown ? path : target.string();
}

}  // namespace

OutputFile::OutputFile(std::string path, std::string called)
    : path_(behind_links(path)), called_(std::move(called)) {
  constexpr mode_t anyone = 0666;  // less what umask takes
  struct stat there {};
  const bool exists = stat(path_.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) fail(EISDIR);
  if (exists && !S_ISREG(there.st_mode)) {
    file_.reset(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  } else {
    if (exists && access(path_.c_str(), W_OK) != 0) fail(errno);
    draft_ = text(path_, ".part-", getpid());
    file_.reset(open(draft_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, anyone));
  }
  if (file_.get() < 0) {
    draft_.clear();
    fail(errno);
  }
  if (exists && !draft_.empty()) (void)fchmod(file_.get(), there.st_mode & 07777U);
}

void OutputFile::fail(int error) const {
  throw Error(ErrorKind::usage, text(called_, ": cannot write it: ", std::strerror(error)),
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
  if (!draft_.empty() && (fsync(file_.get()) != 0 || std::rename(draft_.c_str(), path_.c_str()) != 0)) {
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
