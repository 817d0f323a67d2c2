#include "collectives/diagnosis/record_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/files/output_file.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

bool is_trusted(uid_t owner) {
  return owner == 0 || owner == geteuid();
}

/// One component of a path, made where it is missing.
Descriptor enter(const Descriptor& above, const std::string& name, const std::string& path,
                 const std::string& whole) {
  const auto failed = [&] { return system_error(text("cannot open ", whole, ", at ", path)); };
  struct stat status {};
  const auto look = [&] { return fstatat(above.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0; };
  if (!look() && errno == ENOENT && mkdirat(above.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
    throw failed();
  if (!look()) throw failed();
  const bool is_link = S_ISLNK(status.st_mode);
  if (is_link && !is_trusted(status.st_uid)) {
    throw Error(ErrorKind::usage, text(path, " is a symbolic link of user ", status.st_uid),
                "see who put it there, and set WEFT_FLIGHT_DIR to a folder of your own");
  }
  Descriptor folder(
      openat(above.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (is_link ? 0 : O_NOFOLLOW)));
  if (folder.get() < 0) throw failed();
  return folder;
}

void expect_own(const Descriptor& folder, const std::string& path) {
  struct stat status {};
  if (fstat(folder.get(), &status) != 0) throw system_error(text("cannot open ", path));
  if (status.st_uid == geteuid()) return;
  throw Error(ErrorKind::usage, text(path, " belongs to user ", status.st_uid),
              "set WEFT_FLIGHT_DIR to a folder of your own");
}

/// @param own whether all of it but its first component must be this user's: who has one of them can replace what is below
Descriptor open_folder(const std::string& path, bool own) {
  Descriptor folder(open(path.starts_with('/') ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) throw system_error("cannot open the folder of this process");
  for (std::size_t from = 0; from < path.size();) {
    const std::size_t end = std::min(path.find('/', from), path.size());
    if (end > from) folder = enter(folder, path.substr(from, end - from), path.substr(0, end), path);
    if (own && from > 1) expect_own(folder, path.substr(0, end));
    from = end + 1;
  }
  return folder;
}

}  // namespace

void write_record(const std::string& folder, const std::string& name, const std::string& content, bool own) {
  const Descriptor in = open_folder(folder, own);
  const std::string draft = name + ".part";
  const std::string path = text(folder, "/", draft);
  if (unlinkat(in.get(), draft.c_str(), 0) != 0 && errno != ENOENT)
    throw system_error(text("cannot write ", path));
  const Descriptor file(
      openat(in.get(), draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) throw system_error(text("cannot write ", path));
  try {
    write_all(file.get(), content, path);
  } catch (...) {
    unlinkat(in.get(), draft.c_str(), 0);
    throw;
  }
  if (renameat(in.get(), draft.c_str(), in.get(), name.c_str()) != 0)
    throw system_error(text("cannot rename ", path));
}

}  // namespace weft::detail
