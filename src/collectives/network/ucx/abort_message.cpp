#include "collectives/network/ucx/abort_message.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <utility>

namespace weft::detail {

struct AbortMessage::Place {
  std::atomic<pid_t> thread{0};  ///< 0: free
  std::atomic<const std::string*> line{nullptr};
};

namespace {

// The handler sees these alone: memory that is there from the beginning, and atomics that take no lock.
std::array<AbortMessage::Place, 64> places;
struct sigaction action_before {};
std::mutex mutex;  // of what follows, and never the handler's
int living = 0;

pid_t this_thread() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

void write_all(const std::string& line) {
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t got = write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    done += static_cast<std::size_t>(got);
  }
}

void on_abort(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const pid_t mine = this_thread();
  for (const AbortMessage::Place& place : places) {
    if (place.thread.load() != mine) continue;
    if (const std::string* const line = place.line.load()) write_all(*line);
  }
  errno = error;
  if ((action_before.sa_flags & SA_SIGINFO) != 0) {
    action_before.sa_sigaction(signal, info, context);
  } else if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN) {
    action_before.sa_handler(signal);
  } else if (info->si_code <= 0 &&
             action_before.sa_handler == SIG_DFL) {  // kill(): abort() itself goes on where a handler returns
    sigaction(SIGABRT, &action_before, nullptr);
    raise(signal);
  }
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_abort;
}

void install() {
  struct sigaction now {};
  sigaction(SIGABRT, nullptr, &now);
  if (is_ours(now)) return;  // a handler that came later has put it back
  action_before = now;
  struct sigaction ours {};
  ours.sa_sigaction = on_abort;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGABRT, &ours, nullptr);
}

/// Unless the program has set another since.
void remove() {
  struct sigaction now {};
  sigaction(SIGABRT, nullptr, &now);
  if (is_ours(now)) sigaction(SIGABRT, &action_before, nullptr);
}

}  // namespace

AbortMessage::AbortMessage() {
  const std::lock_guard lock(mutex);
  if (living++ == 0) install();
  const auto free = std::ranges::find_if(places, [](const Place& one) { return one.thread.load() == 0; });
  if (free == places.end()) return;
  place_ = &*free;
  place_->thread = this_thread();
}

AbortMessage::~AbortMessage() {
  const std::lock_guard lock(mutex);
  if (place_ != nullptr) {
    place_->line = nullptr;
    place_->thread = 0;
  }
  if (--living == 0) remove();
}

void AbortMessage::say(std::string line) {
  if (place_ == nullptr) return;
  const std::string* const seen = place_->line.load();
  std::string& other = lines_[seen == lines_.data() ? 1 : 0];
  other = std::move(line);
  if (!other.empty()) other += '\n';
  place_->line = other.empty() ? nullptr : &other;
}

}  // namespace weft::detail
