#pragma once
// While one of these lives, a file that grows beyond `ulimit -f` in this thread is an error (EFBIG) of the call that
// wrote, not the end of the process by SIGXFSZ. Memory files count: a node heap is one.

#include <csignal>
#include <ctime>

namespace weft::detail {

class FileLimitIsAnError {
 public:
  FileLimitIsAnError() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  FileLimitIsAnError(const FileLimitIsAnError&) = delete;
  FileLimitIsAnError& operator=(const FileLimitIsAnError&) = delete;
  ~FileLimitIsAnError() {
    const timespec at_once{};
    if (sigismember(&before_, SIGXFSZ) == 0) sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signal_;
  sigset_t before_;
};

}  // namespace weft::detail
