#if WEFT_HAS_MPI

#include "collectives/network/mpi/process_deadline.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "collectives/store/store_detail.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {

ProcessDeadline::ProcessDeadline(std::string who, std::string call, std::chrono::nanoseconds allowed,
                                 const env::Variable& setting)
    : who_(std::move(who)), call_(std::move(call)), allowed_(allowed), setting_(setting) {
  // A signal is for a thread of the program, which may have blocked it before this one came.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProcessDeadline::~ProcessDeadline() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ProcessDeadline::watch() {
  constexpr std::chrono::nanoseconds year = std::chrono::hours(24 * 365);
  const Deadline deadline = Deadline::in(std::min(allowed_, year));
  std::unique_lock lock(mutex_);
  if (changed_.wait_until(lock, deadline.end(), [this] { return over_; })) return;
  log::error(text(who_, ": ", call_, " has not returned within ", seconds_text(deadline),
                  ": another process of the job did not start, is stopped or has died; see which. ",
                  setting_.name, " sets how long to wait"));
  _exit(exit_code(ErrorKind::timeout));
}

}  // namespace weft::detail

#endif
