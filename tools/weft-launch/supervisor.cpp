#include "supervisor.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <vector>

#include "options.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {

void say(const std::string& line) {
  std::cerr << "weft-launch: " << line << '\n' << std::flush;
}

int Supervisor::run() {
  const Deadline job = timeout_ ? Deadline::in(*timeout_) : Deadline::never();
  ranks_.start();
  while (!ranks_.running().empty()) {
    if (stage_ == Stage::running && job.passed()) {
      say(text(running_ranks(), " still running after ", std::chrono::duration<double>(*timeout_).count(),
               " s (--timeout)"));
      fail(exit_code(ErrorKind::timeout));
      next_ = Deadline::in({});  // no time to notice a failure: the whole job took too long
    }
    advance();
    wait(job);
    while (const auto signal = signals_.take()) handle(*signal);
    for (const Ended& ended : ranks_.collect()) note(ended);
  }
  return status_;
}

/// Until something happens, or the next deadline.
void Supervisor::wait(const Deadline& job) {
  std::vector<pollfd> all{{signals_.fd(), POLLIN, 0}};
  ranks_.watch(all);
  const auto left = std::min({next_.left(), stage_ == Stage::running ? job.left() : next_.left(),
                              ranks_.next().left(), std::chrono::nanoseconds(std::chrono::hours(1))});
  const timespec time{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  (void)ppoll(all.data(), all.size(), &time, nullptr);
}

void Supervisor::handle(int signal) {
  if (signal == SIGCHLD) return;
  ranks_.signal_all(signal);
  if (signal != SIGINT && signal != SIGTERM) return;
  if (++interrupts_ < 2 || stage_ == Stage::killed) return;
  say(text("killing ", running_ranks(), " after a second signal"));
  if (status_ == 0)
    status_ = exit_code(ErrorKind::peer_lost);  // what was killed cannot say that it succeeded
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
  if (ended.status == 0) return;
  // Ranks that weft-launch itself ended are not reported.
  if (stage_ == Stage::asked || stage_ == Stage::killed) return;
  if (is_for_a_reader_that_has_gone(ended)) {
    if (status_ == 0) status_ = 128 + SIGPIPE;  // as a shell says it
    return ask();
  }
  say(ended.what);
  fail(ended.status);
}

/// The first failure sets the status of the job.
void Supervisor::fail(int status) {
  if (status_ == 0) status_ = status;
  if (stage_ != Stage::running) return;
  stage_ = Stage::noticing;
  next_ = Deadline::in(to_notice);
}

void Supervisor::advance() {
  if (!next_.passed()) return;
  if (stage_ == Stage::noticing) {
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
