#include "restarts.hpp"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "core/base/strings.hpp"
#include "host_probes.hpp"
#include "live_line.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

/// Whether a signal that ends the job has arrived. It is not passed on: no rank runs.
bool has_ending_signal(Signals& signals) {
  bool ends = false;
  while (const auto signal = signals.take()) ends = ends || (*signal != SIGCHLD && *signal != SIGUSR2);
  return ends;
}

}  // namespace

bool Restarts::may_follow(const Course& course) {
  made_room_ = course.made_room && course.lost.empty();
  if (!options_ || course.status == 0 || course.told_to_end) return false;
  if (course.status == exit_code(ErrorKind::usage) || course.status == 128 + SIGPIPE) return false;
  if (!made_room_ && failures_ == options_->most) {
    say(text("the job failed ", failures_ + 1, " times; it does not start again (--max-restarts ",
             options_->most, ")"));
    return false;
  }
  ++made_;
  failures_ += made_room_ ? 0 : 1;
  return true;
}

std::string Restarts::words() const {
  if (made_room_) return "starting again";
  return text("starting again, after failure ", failures_, " of at most ", options_->most);
}

std::optional<int> await_hosts(Membership& members, const RestartOptions& options, const Asking& asking) {
  if (members.lost().empty()) return std::nullopt;
  // A host that only lost its connection is back at once.
  const std::chrono::nanoseconds briefly =
      std::min(asking.agents.to_answer, std::chrono::nanoseconds(std::chrono::seconds(5)));
  const int least = options.min_ranks == 0 ? members.most() : options.min_ranks;
  Deadline enough = Deadline::in(briefly);
  const Deadline end = Deadline::in(options.to_return);
  HostProbes probes(members.lost(), asking.agents, asking.guardian, asking.signals);
  bool has_said = false;
  while (!members.lost().empty() && !(enough.passed() && members.ranks() >= least)) {
    if (end.passed() || asking.job.passed())
      throw Error(ErrorKind::timeout,
                  text("the hosts that are there take ", members.ranks(), " ranks, and ", least,
                       " must run: ", detail::listed(members.lost()), " did not answer for ",
                       end.waited_seconds(), " s"),
                  "see why, or allow fewer: --min-ranks");
    if (enough.passed() && !has_said) {
      say(text("waiting for ", detail::listed(members.lost()), ": the other hosts take ", members.ranks(),
               " ranks, and ", least, " must run (--min-ranks)"));
      has_said = true;
    }
    std::vector<pollfd> all{{asking.signals.fd(), POLLIN, 0}};
    probes.watch(all);
    auto left = std::min({probes.next().left(), end.left(), asking.job.left()});
    if (!enough.passed()) left = std::min(left, enough.left());
    const timespec time{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    (void)ppoll(all.data(), all.size(), &time, nullptr);
    if (has_ending_signal(asking.signals)) return exit_code(ErrorKind::peer_lost);
    for (const std::string& host : probes.collect()) members.regain(host);
  }
  return std::nullopt;
}

}  // namespace weft::launch
