#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "collectives/store/store_detail.hpp"
#include "core/base/file_limit.hpp"
#include "core/base/number.hpp"
#include "weft/collectives/store.hpp"
#include "weft/core/backoff.hpp"

// The file is a heading and then records, each a RecordHead, the key and the value. Only a record whose
// checksum holds is there, so readers take no lock (a crowd of polling readers would starve the writers), and
// whatever a killed writer left at the end is cut off by the next one, under flock. Rank r holds a lock on byte r as
// long as it lives and has said so under a key of its own: without the lock it is gone, and a file without rank 0's
// belongs to a run that is over.

namespace weft {
namespace {

constexpr std::string_view heading = "weft-store 1\n";
constexpr std::chrono::seconds lock_timeout{60};  // for writers ahead of this one, who need microseconds
constexpr std::string_view came = "came/";        // and a rank: the key of one that has opened the file

struct RecordHead {
  std::uint64_t checksum;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
};

std::uint64_t checksum(std::string_view key, std::string_view value) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  const auto mix = [&](std::string_view bytes) {
    for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
    hash = (hash ^ bytes.size()) * 0x100000001b3U;
  };
  mix(key);
  mix(value);
  return hash;
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Ends with the process that set it, whatever way it ends; belongs to the open file, so that threads are
/// ranks too.
struct flock byte_of(int rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

/// Whether another process, or another thread's open file, holds a rank's byte.
bool is_held(const File& file, int rank, const std::string& path) {
  struct flock lock = byte_of(rank);
  if (::fcntl(file.get(), F_OFD_GETLK, &lock) != 0) throw system_error(text("cannot lock ", path));
  return lock.l_type != F_UNLCK;
}

void write_all(const File& file, std::string_view bytes, std::uint64_t offset, const std::string& path) {
  const detail::FileLimitIsAnError limit;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(text("cannot write ", path));
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

/// Up to `bytes` from `offset`; shorter at the end of the file.
std::string read_some(const File& file, std::uint64_t offset, std::size_t bytes, const std::string& path) {
  std::string data(bytes, '\0');
  std::size_t filled = 0;
  while (filled < bytes) {
    const ssize_t got =
        ::pread(file.get(), data.data() + filled, bytes - filled, static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(text("cannot read ", path));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  data.resize(filled);
  return data;
}

/// The file appears under its name complete and locked: no rank ever sees it without its heading or its
/// owner. None where another file has the name.
std::optional<File> create(const std::string& path) {
  const std::string draft = text(path, ".", ::getpid(), ".new");
  File file(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    throw Error(ErrorKind::usage, text("cannot create ", draft, ": ", std::strerror(errno)),
                "file:// needs a path in a folder that all ranks can write");
  }
  struct flock lock = byte_of(0);
  int failed = 0;
  const detail::FileLimitIsAnError limit;
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) failed = errno;
  if (failed == 0 && ::pwrite(file.get(), heading.data(), heading.size(), 0) < 0) failed = errno;
  if (failed == 0 && ::link(draft.c_str(), path.c_str()) != 0) failed = errno;
  ::unlink(draft.c_str());
  if (failed == EEXIST) return std::nullopt;
  if (failed != 0) {
    errno = failed;
    throw system_error(text("rank 0 cannot create ", path));
  }
  return file;
}

/// One that another rank may have made. Without waiting: what the user named may be a pipe or a device.
File open_there(const std::string& path) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  } while (descriptor < 0 && errno == EINTR);
  File file(descriptor);
  struct stat there {};
  if (descriptor >= 0 && (::fstat(descriptor, &there) != 0 || !S_ISREG(there.st_mode)))
    throw Error(ErrorKind::usage, text(path, " is no regular file"), "give a path that does not exist");
  // Who made it may write it, and could lead the ranks elsewhere.
  if (descriptor >= 0 && there.st_uid != ::geteuid())
    throw Error(ErrorKind::usage,
                text(path, " belongs to user ", there.st_uid, "; this is user ", ::geteuid()),
                "name a path in a folder that only this user can write");
  return file;
}

File join(const std::string& path, int rank, Deadline deadline) {
  Backoff backoff;
  while (true) {
    File file = open_there(path);
    if (file.get() >= 0) {
      if (read_some(file, 0, heading.size(), path) != heading) {
        throw Error(ErrorKind::usage, text(path, " is not a file that ranks meet in"),
                    "give a path that does not exist", {rank, {}, 0});
      }
      if (!is_held(file, 0, path)) {
        throw Error(ErrorKind::usage, text(path, " was left by a run whose rank 0 is gone"),
                    "give every run a path of its own, or remove the file", {rank, {}, 0});
      }
      return file;
    }
    if (errno != ENOENT)
      throw Error(ErrorKind::usage, text("cannot open ", path, ": ", std::strerror(errno)));
    if (deadline.passed()) {
      throw Error(ErrorKind::timeout,
                  text("rank 0 did not create ", path, " within ", detail::seconds_text(deadline)),
                  "see why rank 0 did not start; file:// needs all ranks on one machine", {rank, {}, 0});
    }
    backoff.pause();
  }
}

/// Where a process has rank 0 there already, the rendezvous tells all ranks that there are two.
std::pair<File, bool> create_or_join(const std::string& path) {
  if (auto created = create(path)) return {std::move(*created), true};
  File file = open_there(path);
  if (file.get() < 0 || read_some(file, 0, heading.size(), path) != heading || !is_held(file, 0, path)) {
    throw Error(ErrorKind::usage, text(path, " exists: another run uses it or used it"),
                "give every run a path of its own, or remove the file");
  }
  return {std::move(file), false};
}

class FileStore final : public Store {
 public:
  FileStore(std::string path, int rank, Deadline deadline)
      : FileStore(path, rank,
                  rank == 0 ? create_or_join(path) : std::pair(join(path, rank, deadline), false)) {}

  FileStore(std::string path, int rank, std::pair<File, bool> file_and_owner)
      : path_(std::move(path)),
        rank_(rank),
        owner_(file_and_owner.second),
        file_(std::move(file_and_owner.first)) {
    struct flock lock = byte_of(rank);
    // Where another process has this rank, the rendezvous says so.
    if (!owner_ && ::fcntl(file_.get(), F_OFD_SETLK, &lock) != 0 && errno != EAGAIN && errno != EACCES)
      throw system_error(text("cannot lock ", path_));
    set(text(came, rank), {});
  }

  ~FileStore() override {
    if (owner_ && origin_.is_here()) ::unlink(path_.c_str());  // those who have it open keep reading
  }

  void set(const std::string& key, const std::string& value) override {
    detail::expect_here(origin_, rank_);
    detail::check_entry(key, value.size());
    const std::lock_guard lock(mutex_);
    const WriteLock write_lock(*this);
    catch_up();
    if (const auto found = values_.find(key); found != values_.end()) {
      if (found->second == value) return;
      throw Error(ErrorKind::usage, text("key '", key, "' was set before to another value in ", path_));
    }
    if (::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0)
      throw system_error(text("cannot truncate ", path_));
    const RecordHead head{checksum(key, value), static_cast<std::uint32_t>(key.size()),
                          static_cast<std::uint32_t>(value.size())};
    std::string record(sizeof(head), '\0');
    std::memcpy(record.data(), &head, sizeof(head));
    write_all(file_, record + key + value, end_, path_);
    catch_up();
  }

  std::optional<std::string> get(const std::string& key, Deadline deadline) override {
    detail::expect_here(origin_, rank_);
    Backoff backoff;
    while (true) {
      const bool last = deadline.passed();
      {
        const std::lock_guard lock(mutex_);
        catch_up();
        if (const auto found = values_.find(key); found != values_.end()) return found->second;
      }
      if (last) return std::nullopt;
      backoff.pause();
    }
  }

  std::vector<int> gone() override {
    detail::expect_here(origin_, rank_);
    const std::lock_guard lock(mutex_);
    catch_up();
    std::vector<int> ranks;
    for (auto entry = values_.lower_bound(came);
         entry != values_.end() && std::string_view(entry->first).starts_with(came); ++entry) {
      const auto rank = detail::number_of<int>(std::string_view(entry->first).substr(came.size()));
      if (rank && *rank >= 0 && *rank != rank_ && !is_held(file_, *rank, path_)) ranks.push_back(*rank);
    }
    return ranks;
  }

 private:
  class WriteLock {
   public:
    explicit WriteLock(const FileStore& store) : file_(store.file_) {
      const Deadline deadline = Deadline::in(lock_timeout);
      Backoff backoff;
      while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) throw system_error(text("cannot lock ", store.path_));
        if (deadline.passed()) {
          throw Error(ErrorKind::timeout,
                      text("another rank has held the lock of ", store.path_, " for ",
                           detail::seconds_text(deadline)),
                      "see which rank is stopped");
        }
        backoff.pause();
      }
    }
    WriteLock(const WriteLock&) = delete;
    WriteLock& operator=(const WriteLock&) = delete;
    ~WriteLock() { ::flock(file_.get(), LOCK_UN); }

   private:
    const File& file_;
  };

  /// Takes in every record that is complete since the last look.
  void catch_up() {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) throw system_error(text("cannot read ", path_));
    const auto size = static_cast<std::uint64_t>(status.st_size);
    RecordHead head{};
    while (size >= end_ + sizeof(head)) {
      const std::string raw = read_some(file_, end_, sizeof(head), path_);
      if (raw.size() < sizeof(head)) return;
      std::memcpy(&head, raw.data(), sizeof(head));
      if (head.key_bytes > detail::longest_key || head.value_bytes > detail::longest_value) return;
      const std::size_t bytes = std::size_t{head.key_bytes} + head.value_bytes;
      const std::string body = read_some(file_, end_ + sizeof(head), bytes, path_);
      if (body.size() < bytes) return;
      const std::string_view key(body.data(), head.key_bytes);
      const std::string_view value(body.data() + head.key_bytes, head.value_bytes);
      if (checksum(key, value) != head.checksum) return;
      values_.emplace(key, value);
      end_ += sizeof(head) + bytes;
    }
  }

  const detail::Origin origin_;
  const std::string path_;
  const int rank_;
  const bool owner_;
  File file_;
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;
  std::uint64_t end_ = heading.size();  ///< of the last complete record this rank has seen
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& path, int rank, Deadline deadline) {
  return std::make_shared<FileStore>(path, rank, deadline);
}

}  // namespace weft
