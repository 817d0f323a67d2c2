#include "metrics/textfile.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/file_limit.hpp"
#include "metrics/blocked_signals.hpp"
#include "metrics/families.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {

Textfile::Textfile(const Meter& meter, const std::string& folder, std::chrono::milliseconds every)
    : meter_(meter), every_(every) {
  const ErrorContext here{meter.rank(), "Metrics", 0};
  if (every <= std::chrono::milliseconds(0))
    throw Error(ErrorKind::usage, text("metrics written every ", every.count(), " ms"), "give 1 ms or more",
                here);
  const std::string name = text("weft-rank-", meter.rank(), ".prom");
  path_ = (std::filesystem::path(folder) / name).string();
  draft_ = (std::filesystem::path(folder) / text('.', name, ".draft")).string();
  if (const std::string problem = write(); !problem.empty())
    throw Error(ErrorKind::usage, problem, "give a folder that is there and may be written", here);
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

Textfile::~Textfile() {
  if (getpid() != owner_) {
    (void)new std::thread(std::move(thread_));  // it is not there to be waited for
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
  thread_.join();
  std::remove(path_.c_str());
}

std::string Textfile::write() const {
  errno = 0;
  const detail::FileLimitIsAnError limit;
  std::ofstream out(draft_, std::ios::binary | std::ios::trunc);
  out << text_of(meter_);
  out.close();
  const bool is_there = out && std::rename(draft_.c_str(), path_.c_str()) == 0;
  if (is_there) return {};
  const int error = errno;
  std::remove(draft_.c_str());
  return text("cannot write metrics to ", path_, ": ", std::strerror(error));
}

// What keeps it from writing is said once, and tried again: a full disk may have room later.
void Textfile::run() {
  bool has_told = false;
  std::unique_lock lock(mutex_);
  while (!wakes_.wait_for(lock, every_, [this] { return ends_; })) {
    lock.unlock();
    const std::string problem = write();
    if (!problem.empty() && !has_told) log::warn(text("rank ", meter_.rank(), ": ", problem));
    has_told = !problem.empty();
    lock.lock();
  }
}

}  // namespace weft::detail
