#include "weft-scaling/gpt/data/text.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "weft-scaling/gpt/data/random.hpp"
#include "weft/core/error.hpp"

namespace weft::examples {

namespace fs = std::filesystem;

namespace {

constexpr const char* advice = "give a regular file or a folder of regular files";

/// Closed at its end.
struct OpenFile {
  explicit OpenFile(const fs::path& path) : number(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (number >= 0) close(number);
  }
  const int number;
};

// A pipe in the place of a file is opened without waiting for its writer, and refused.
void append(std::vector<std::uint8_t>& bytes, const fs::path& file) {
  const std::string called = weft::text("cannot read the text ", file.string());
  const OpenFile in(file);
  struct stat there {};
  if (in.number < 0 || fstat(in.number, &there) != 0) throw system_error(called);
  if (!S_ISREG(there.st_mode)) throw Error(ErrorKind::usage, called + ": it is no regular file", advice);
  const std::size_t before = bytes.size();
  try {
    bytes.resize(before + static_cast<std::size_t>(there.st_size));
  } catch (const std::exception&) {
    throw Error(ErrorKind::system,
                weft::text(called, ": there is no memory for its ", there.st_size, " bytes"));
  }
  for (std::size_t at = before; at < bytes.size();) {
    const ssize_t got = read(in.number, bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(called);
    if (got == 0) bytes.resize(at);  // it became shorter
    at += static_cast<std::size_t>(got);
  }
}

std::vector<fs::path> regular_files(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    // A link would count the same text twice, and the held-out part must not also be trained on.
    if (fs::is_regular_file(entry->symlink_status())) files.push_back(entry->path());
  }
  if (failure) {
    throw Error(ErrorKind::system,
                weft::text("cannot read the folder ", folder.string(), ": ", failure.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

void require_room(const char* part, std::int64_t bytes, std::int64_t sequence_bytes,
                  const std::string& name) {
  if (bytes >= sequence_bytes) return;
  throw Error(ErrorKind::usage,
              weft::text("the ", part, " part of the text ", name, " has ", bytes, " bytes, fewer than the ",
                         sequence_bytes, " of one sequence"),
              "use a longer text or a model with a shorter context");
}

}  // namespace

Text Text::read(const fs::path& path, std::int64_t sequence_bytes) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) {
    throw Error(ErrorKind::usage, weft::text("there is no text at ", path.string()), advice);
  }
  std::vector<std::uint8_t> bytes;
  if (fs::is_directory(status)) {
    for (const fs::path& file : regular_files(path)) append(bytes, file);
  } else if (fs::is_regular_file(status)) {
    append(bytes, path);
  } else {
    throw Error(ErrorKind::usage, weft::text("the text ", path.string(), " is neither a file nor a folder"),
                advice);
  }
  return Text(std::move(bytes), sequence_bytes, path.string());
}

Text::Text(std::vector<std::uint8_t> bytes, std::int64_t sequence_bytes, const std::string& name)
    : bytes_(std::move(bytes)), sequence_bytes_(sequence_bytes) {
  if (sequence_bytes < 2) {
    throw Error(ErrorKind::usage, weft::text("a sequence of ", sequence_bytes, " bytes"),
                "a sequence needs a byte to read and a byte to predict");
  }
  if (bytes_.empty()) throw Error(ErrorKind::usage, weft::text("the text ", name, " is empty"), advice);
  const auto size = static_cast<std::int64_t>(bytes_.size());
  training_bytes_ = size - size / 10;
  require_room("training", training_bytes_, sequence_bytes_, name);
  require_room("held-out", size - training_bytes_, sequence_bytes_, name);
}

std::int64_t Text::training_start(std::uint64_t seed, std::int64_t step, std::int64_t index) const {
  const auto starts = static_cast<std::uint64_t>(training_bytes_ - sequence_bytes_ + 1);
  const std::uint64_t word =
      random_word(seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(index));
  return static_cast<std::int64_t>(word % starts);
}

void Text::training(std::uint64_t seed, std::int64_t step, std::int64_t first,
                    std::span<Sequence> batch) const {
  for (Sequence& entry : batch) entry = sequence(training_start(seed, step, first++));
}

void Text::held_out(std::int64_t count, std::int64_t first, std::span<Sequence> batch) const {
  if (first < 0 || first + static_cast<std::int64_t>(batch.size()) > count) {
    throw Error(ErrorKind::usage,
                weft::text("held-out sequences [", first, ", ", first + std::ssize(batch), ") of ", count));
  }
  const std::int64_t room = held_out_bytes() - sequence_bytes_;
  for (Sequence& entry : batch) {
    entry = sequence(training_bytes_ + room * first++ / std::max<std::int64_t>(count - 1, 1));
  }
}

Sequence Text::sequence(std::int64_t start) const {
  return Sequence(bytes_).subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(sequence_bytes_));
}

}  // namespace weft::examples
