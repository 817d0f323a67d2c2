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
#include <limits>
#include <tuple>

#include "core/files/input_file.hpp"
#include "core/files/output_file.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view before_step = "step-";
constexpr std::size_t least_digits = 8;
constexpr std::string_view draft_ending = ".part";
constexpr std::string_view replaced_ending = ".replaced";

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
  Descriptor file(
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666));
  if (file.get() < 0) refuse(folder, errno);
  struct stat there {};
  if (fstat(file.get(), &there) != 0 || !S_ISREG(there.st_mode))
    throw Error(ErrorKind::usage, text("cannot save into ", folder, ": ", path, " is no regular file"),
                "remove it");
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

struct Place {
  bool is_gone = false;  ///< another process removed it after the folder was read
  std::optional<std::int64_t> number{};
};

/// By the first bytes of its index. @param path of a complete checkpoint
Place place_of(const std::string& path) {
  InputFile index(path + '/' + index_name);
  if (!index.is_open()) return {.is_gone = index.is_missing() && !fs::exists(path)};
  std::string start(save_number_bytes, '\0');
  try {
    start.resize(index.read(start.data(), start.size()));
  } catch (const Error&) {
    return {};
  }
  return {.number = save_number_in(start)};
}

/// The step of a name that is checkpoint_name() and an ending.
std::optional<std::int64_t> step_before(std::string_view ending, const std::string& name) {
  if (!name.ends_with(ending)) return std::nullopt;
  return step_of(name.substr(0, name.size() - ending.size()));
}

void rename_to(const std::string& from, const std::string& to, const char* to_do, const std::string& what) {
  if (std::rename(from.c_str(), to.c_str()) != 0) throw system_error(text("cannot ", to_do, ' ', what));
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

std::vector<Saved> all_saved(const std::string& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  std::vector<Saved> all;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const auto step = step_of(entries->path().filename().string());
    if (!step) continue;
    const auto [is_gone, number] = place_of(entries->path().string());
    if (!is_gone) all.push_back({*step, number});
  }
  if (error) throw Error(ErrorKind::usage, text("cannot read ", folder, ": ", error.message()));
  std::ranges::sort(all, {}, [](const Saved& one) {
    return std::tuple(one.number.value_or(std::numeric_limits<std::int64_t>::max()), one.step);
  });
  return all;
}

void flush_folder(const std::string& folder) {
  const Descriptor open_folder(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open_folder.get() < 0 || !is_flushed(open_folder.get()))
    throw system_error(text("cannot write ", folder));
}

SaveFolder::SaveFolder(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) refuse(folder_, error.value());
  lock_ = locked(folder_);
  clean_up();
}

/// What a job that was ended left.
void SaveFolder::clean_up() {
  std::vector<std::string> left;
  std::vector<std::int64_t> replaced;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (step_before(draft_ending, name)) left.push_back(entry.path().string());
    if (const auto step = step_before(replaced_ending, name)) replaced.push_back(*step);
  }
  for (const std::int64_t step : replaced) {
    const std::string old = path(step) + std::string(replaced_ending);
    if (fs::exists(path(step))) {
      left.push_back(old);
      continue;
    }
    log::info(text(path(step), " is back: the job that was to replace it was ended"));
    rename_to(old, path(step), "make", path(step));
  }
  for (const std::string& one : left) {
    log::info(text("removing ", one, ", which a job that was ended left"));
    remove_with_all(one);
  }
}

void SaveFolder::begin(std::int64_t step) {
  const std::string draft = draft_path(folder_, step);
  remove_with_all(draft);  // one that could not be removed before
  if (mkdir(draft.c_str(), 0777) != 0) throw system_error(text("cannot make ", draft));
}

void SaveFolder::publish(Index index) {
  for (const Saved& one : all_saved(folder_)) index.save = std::max(index.save, one.number.value_or(0));
  if (++index.save > most_saves)
    throw Error(ErrorKind::usage,
                text("a checkpoint in ", folder_, " has the last number of a save that there is"),
                "save into another folder");
  const std::string draft = draft_path(folder_, index.step);
  OutputFile file(text(draft, '/', index_name), text(draft, '/', index_name));
  file.write(text_of(index));
  flush_folder(draft);
  if (fs::exists(path(index.step))) return replace(index.step);
  rename_to(draft, path(index.step), "make", path(index.step));
  flush_folder(folder_);
}

// Two renames instead of one exchange, which few network filesystems have. If the second rename fails, the old checkpoint is renamed back.
void SaveFolder::replace(std::int64_t step) {
  const std::string old = path(step) + std::string(replaced_ending);
  remove_with_all(old);
  rename_to(path(step), old, "replace", path(step));
  try {
    rename_to(draft_path(folder_, step), path(step), "make", path(step));
  } catch (const Error&) {
    (void)std::rename(old.c_str(), path(step).c_str());
    throw;
  }
  flush_folder(folder_);
  log::warn(text("removing the ", path(step), " of before: this step was saved again"));
  try {
    remove_with_all(old);
  } catch (const Error& error) {
    log::warn(
        text("it stays as ", old, ": ", error.what()));  // the new one is safe: the next job tries again
  }
}

void SaveFolder::discard(std::int64_t step) noexcept {
  std::error_code ignored;
  fs::remove_all(draft_path(folder_, step), ignored);
}

void SaveFolder::keep_last(int count, std::int64_t newest) {
  std::vector<Saved> all = all_saved(folder_);
  std::erase_if(all, [&](const Saved& one) {
    if (!one.number && one.step != newest && complained_.insert(one.step).second)
      log::warn(text(path(one.step), " stays, and does not count: its ", index_name,
                     " cannot be read, and when it was saved is not known"));
    return !one.number || one.step == newest;
  });
  const std::size_t most_others = static_cast<std::size_t>(count) - 1;
  for (std::size_t i = 0; i + most_others < all.size(); ++i) {
    const std::int64_t step = all[i].step;
    const std::string draft = draft_path(folder_, step);
    // Steps beyond the newest are unusual: a training goes on from an older one.
    log::write(step > newest ? log::Level::warn : log::Level::info,
               text("removing ", path(step), ": the last ", count, " that were saved stay"));
    rename_to(path(step), draft, "remove", path(step));
    remove_with_all(draft);
  }
}

}  // namespace weft::detail
