#include "core/files/scratch_file.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "core/base/file_limit.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

constexpr const char* other_folder = "name a folder on a local disk that this process may write to";

/// False when the filesystem has no direct access. The flag is set after opening, because an open() with
/// O_DIRECT that fails leaves the file behind.
bool make_direct(int descriptor) {
  return fcntl(descriptor, F_SETFL, O_DIRECT) == 0;
}

void warn_once_of_buffering(const std::string& directory) {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  log::warn("files in " + directory +
            " go through the page cache, for its filesystem has no direct access (O_DIRECT): it costs "
            "copies, and memory where that is not needed otherwise");
}

/// Never has a name, where the filesystem can do that: a process that is killed leaves nothing.
int make_nameless(const std::string& directory, std::string& path) {
  const int descriptor = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return descriptor;
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

ScratchFile::ScratchFile(const std::string& directory, std::size_t bytes, Access access)
    : path_(directory + "/weft-XXXXXX"), bytes_(bytes), access_(access) {
  descriptor_ = make_nameless(directory, path_);
  if (descriptor_ < 0) throw system_error("cannot make a file in " + directory, other_folder);
  try {
    if (access_ == Access::direct && !make_direct(descriptor_)) {
      warn_once_of_buffering(directory);
      access_ = Access::buffered;
    }
    reserve(directory);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

// A file larger than the free space is refused before fallocate() takes that space away from other programs.
void ScratchFile::reserve(const std::string& directory) {
  const FileLimitIsAnError limit;
  struct statvfs disk {};
  if (fstatvfs(descriptor_, &disk) != 0) throw system_error("cannot ask what space is left in " + directory);
  const std::size_t free = disk.f_bavail * disk.f_frsize;
  int status = 0;
  if (bytes_ > free) {
    status = -1;
    errno = ENOSPC;
  } else {
    do status = fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes_));
    while (status != 0 && errno == EINTR);
  }
  if (status == 0) return;
  if (errno == ENOSPC || errno == EDQUOT)
    throw system_error(text(bytes_, " bytes are needed in ", directory, " and ", free, " are free"),
                       "make room, or keep less there; a file that moves is there twice for a while");
  throw system_error(text("cannot reserve ", bytes_, " bytes in ", directory),
                     "space must be there beforehand: use a filesystem that can reserve it, such as ext4 or "
                     "xfs, and allow files of that size (`ulimit -f`)");
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(other.bytes_),
      access_(other.access_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

ScratchFile::~ScratchFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace weft::detail
