#include "supervisor.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "core/base/strings.hpp"
#include "options.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {

Course Supervisor::run() {
  ranks_.start();
  while (!ranks_.running().empty()) {
    if (stage_ == Stage::running && limits_.job.passed()) {
      say(text(running_ranks(), " still running after ", limits_.job.allowed_seconds(), " s (--timeout)"));
      course_.told_to_end = true;
      fail(exit_code(ErrorKind::timeout));
      next_ = Deadline::in({});  // no time to notice a failure: the whole job took too long
    }
    advance();
    wait();
    while (const auto signal = signals_.take()) handle(*signal);
    for (const Ended& ended : ranks_.collect()) note(ended);
    if (lost_before_ != nullptr) greet_hosts();
    if (watch_ != nullptr) watch_->collect();
    live_.draw();
  }
  live_.take_away();
  return course_;
}

/// Until something happens, or the next deadline.
void Supervisor::wait() {
  std::vector<pollfd> all{{signals_.fd(), POLLIN, 0}};
  ranks_.watch(all);
  if (watch_ != nullptr) watch_->watch(all);
  auto left = std::min({next_.left(), ranks_.next().left(), live_.next().left(),
                        std::chrono::nanoseconds(std::chrono::hours(1))});
  if (stage_ == Stage::running) left = std::min(left, limits_.job.left());
  if (lost_before_ != nullptr && stage_ == Stage::running) {
    lost_before_->watch(all);
    left = std::min(left, lost_before_->next().left());
  }
  const timespec time{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  (void)ppoll(all.data(), all.size(), &time, nullptr);
}

/// Ranks make room for hosts that are back: they save, and end, and the job starts again with more.
void Supervisor::greet_hosts() {
  if (stage_ != Stage::running) return;
  course_.back = lost_before_->collect();
  if (course_.back.empty()) return;
  say(text(detail::listed(course_.back), course_.back.size() == 1 ? " is" : " are",
           " back: the ranks are told to save and end (SIGUSR1), and start again with more"));
  course_.made_room = true;
  ranks_.signal_all(SIGUSR1);
  give_notice();
}

void Supervisor::give_notice() {
  if (stage_ != Stage::running || !limits_.grace) return;
  stage_ = Stage::saving;
  next_ = Deadline::in(*limits_.grace);
}

void Supervisor::handle(int signal) {
  if (signal == SIGCHLD) return;
  ranks_.signal_all(signal);
  if (signal == SIGUSR2) return;
  course_.told_to_end = true;
  if (signal == SIGUSR1) give_notice();
  if (signal != SIGINT && signal != SIGTERM) return;
  if (++interrupts_ < 2 || stage_ == Stage::killed) return;
  say(text("killing ", running_ranks(), " after a second signal"));
  if (course_.status == 0)
    course_.status = exit_code(ErrorKind::peer_lost);  // what was killed cannot say that it succeeded
  ranks_.signal_all(SIGKILL);
  stage_ = Stage::killed;
  next_ = Deadline::never();
}

/// As in `weft-launch ... | head`: nothing is wrong, and no one reads what could be said.
bool is_for_a_reader_that_has_gone(const Ended& ended) {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ended.signal == SIGPIPE && poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

void Supervisor::note(const Ended& ended) {
  if (!ended.lost_host.empty()) course_.lost.insert(ended.lost_host);
  if (ended.status == 0) return;
  if (stage_ == Stage::saving && !ended.signal && ended.status == exit_code(ErrorKind::peer_lost)) {
    course_.status = ended.status;  // as it was told
    return;
  }
  // Ranks that weft-launch itself ended are not reported.
  if (stage_ == Stage::asked || stage_ == Stage::killed) return;
  if (is_for_a_reader_that_has_gone(ended)) {
    if (course_.status == 0) course_.status = 128 + SIGPIPE;  // as a shell says it
    return ask();
  }
  say(ended.what);
  if (watch_ != nullptr) watch_->tell(ended.what);
  // A rank that only lost another may end before the one that made the mistake, whose status is the job's.
  const bool is_cause = ended.signal != 0 || ended.status != exit_code(ErrorKind::peer_lost);
  if (is_cause && stage_ == Stage::noticing && !has_cause_) course_.status = ended.status;
  has_cause_ = has_cause_ || is_cause;
  fail(ended.status);
}

/// The first failure sets the status of the job (see note()), and gives the other ranks time to notice it. Each further failure adds a little: a rank
/// may be waiting for one that fails later than the first.
void Supervisor::fail(int status) {
  if (course_.status == 0) course_.status = status;
  if (stage_ == Stage::asked || stage_ == Stage::killed) return;
  const Deadline after_this = Deadline::in(stage_ == Stage::noticing ? to_notice_another : to_notice);
  if (stage_ != Stage::noticing || next_.end() < after_this.end()) next_ = after_this;
  stage_ = Stage::noticing;
}

void Supervisor::advance() {
  if (!next_.passed()) return;
  if (stage_ == Stage::saving) {
    say(text(running_ranks(), " still running ", next_.allowed_seconds(),
             " s after the notice (--grace); ending them"));
    fail(exit_code(ErrorKind::timeout));
    ask();
  } else if (stage_ == Stage::noticing) {
    say(text("ending ", running_ranks()));
    ask();
  } else if (stage_ == Stage::asked) {
    say(text("killing ", running_ranks()));
    ranks_.signal_all(SIGKILL);
    stage_ = Stage::killed;
    next_ = Deadline::never();
  }
}

void Supervisor::ask() {
  ranks_.signal_all(SIGTERM);
  ranks_.signal_all(SIGCONT);  // a stopped rank could not end itself
  stage_ = Stage::asked;
  next_ = Deadline::in(to_end);
}

std::string Supervisor::running_ranks() const {
  constexpr std::size_t most = 16;
  const std::vector<int> numbers = ranks_.running();
  std::string words = numbers.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(most, numbers.size()); ++i)
    words += text(i == 0 ? "" : ", ", numbers[i]);
  if (numbers.size() > most) words += text(" and ", numbers.size() - most, " more");
  return words;
}

}  // namespace weft::launch
