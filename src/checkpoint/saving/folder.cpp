#include "checkpoint/saving/folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "core/base/output_file.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view before_step = "step-";
constexpr std::size_t least_digits = 8;
constexpr std::string_view draft_ending = ".part";

std::string this_process() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return text("process ", getpid(), " on ", host.data());
}

[[noreturn]] void refuse(const std::string& folder, int error) {
  throw Error(ErrorKind::usage, text("cannot save into ", folder, ": ", std::strerror(error)),
              "name a folder that this job may write to");
}

/// The lock lies on the file while it is open, and goes with the process.
Descriptor locked(const std::string& folder) {
  const std::string path = folder + "/.weft-saver";
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (file.get() < 0) refuse(folder, errno);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      throw system_error(text("cannot lock ", path), "use a filesystem that has locks");
    std::array<char, 320> other{};
    const ssize_t length = pread(file.get(), other.data(), other.size(), 0);
    throw Error(ErrorKind::usage,
                text("another job saves into ", folder, ": ",
                     std::string_view(other.data(), std::max<ssize_t>(0, length))),
                "give each job a folder of its own, or wait until that one has ended");
  }
  const std::string mine = this_process();
  if (ftruncate(file.get(), 0) != 0) throw system_error(text("cannot write ", path));
  write_all(file.get(), mine, path);
  return file;
}

void remove_with_all(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw Error(ErrorKind::system, text("cannot remove ", path, ": ", error.message()));
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  const std::string digits = text(step);
  return text(before_step, std::string(std::max(least_digits, digits.size()) - digits.size(), '0'), digits);
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(before_step)) return std::nullopt;
  std::int64_t step = -1;
  std::from_chars(name.data() + before_step.size(), name.data() + name.size(), step);
  if (step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

std::string draft_path(const std::string& folder, std::int64_t step) {
  return text(folder, '/', checkpoint_name(step), draft_ending);
}

std::vector<std::int64_t> complete_steps(const std::string& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  std::vector<std::int64_t> steps;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (const auto step = step_of(entries->path().filename().string())) steps.push_back(*step);
  }
  if (error) throw Error(ErrorKind::usage, text("cannot read ", folder, ": ", error.message()));
  std::ranges::sort(steps);
  return steps;
}

void flush_folder(const std::string& folder) {
  const Descriptor open_folder(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open_folder.get() < 0 || fsync(open_folder.get()) != 0)
    throw system_error(text("cannot write ", folder));
}

SaveFolder::SaveFolder(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) refuse(folder_, error.value());
  lock_ = locked(folder_);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(draft_ending) && step_of(name.substr(0, name.size() - draft_ending.size())))
      left.push_back(entry.path().string());
  }
  for (const std::string& path : left) {
    log::info(text("removing ", path, ", which a job that was ended left"));
    remove_with_all(path);
  }
}

void SaveFolder::begin(std::int64_t step) {
  if (fs::exists(path(step)))
    throw Error(ErrorKind::usage, text(path(step), " is there already"),
                "continue from the newest checkpoint, or save into another folder");
  const std::string draft = draft_path(folder_, step);
  if (mkdir(draft.c_str(), 0777) != 0) throw system_error(text("cannot make ", draft));
}

void SaveFolder::publish(std::int64_t step, const std::string& index) {
  const std::string draft = draft_path(folder_, step);
  OutputFile file(text(draft, '/', index_name), text(draft, '/', index_name));
  file.write(index);
  flush_folder(draft);
  if (std::rename(draft.c_str(), path(step).c_str()) != 0)
    throw system_error(text("cannot make ", path(step)));
  flush_folder(folder_);
}

void SaveFolder::discard(std::int64_t step) noexcept {
  std::error_code ignored;
  fs::remove_all(draft_path(folder_, step), ignored);
}

void SaveFolder::keep_last(int count) {
  const auto steps = complete_steps(folder_);
  for (std::size_t i = 0; i + static_cast<std::size_t>(count) < steps.size(); ++i) {
    const std::string draft = draft_path(folder_, steps[i]);
    if (std::rename(path(steps[i]).c_str(), draft.c_str()) != 0)
      throw system_error(text("cannot remove ", path(steps[i])));
    remove_with_all(draft);
  }
}

}  // namespace weft::detail
