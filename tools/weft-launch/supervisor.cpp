#include "supervisor.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include "child_environment.hpp"
#include "common/temporary_folder.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

std::vector<char*> pointers(std::vector<std::string>& lines) {
  std::vector<char*> all;
  for (std::string& line : lines) all.push_back(line.data());
  all.push_back(nullptr);
  return all;
}

void say(const std::string& line) {
  std::cerr << "weft-launch: " << line << '\n' << std::flush;
}

/// Between fork and exec; async-signal-safe calls only. Returns when something failed, with errno.
void become(char* const* arguments, char* const* environment, bool keeps_input, pid_t launcher,
            const Guardian& guardian, const sigset_t& mask) {
  if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  guardian.watch(getpid());
  if (getppid() != launcher) _exit(1);  // the launcher was killed before the line above
  if (!keeps_input) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return;
  }
  if (sigprocmask(SIG_SETMASK, &mask, nullptr) != 0) return;
  execve(arguments[0], arguments, environment);
}

}  // namespace

Supervisor::Supervisor(RunOptions options, std::vector<std::string> inherited)
    : options_(std::move(options)), inherited_(std::move(inherited)) {
  std::signal(SIGCHLD, SIG_DFL);  // if a parent left it ignored, the kernel would reap the ranks itself
  sigemptyset(&watched_);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&watched_, signal);
  if (sigprocmask(SIG_BLOCK, &watched_, &before_) != 0) throw system_error("cannot block signals");
  std::string pattern = tool::temporary_folder() + "/weft-launch-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    throw system_error(text("cannot create ", pattern), "set TMPDIR to a folder that can be written");
  }
  folder_ = pattern;
  token_ = new_token();
  guardian_.emplace(folder_);
}

Supervisor::~Supervisor() {
  signal_all(SIGKILL);
  for (const Rank& rank : ranks_) {
    if (!rank.running) continue;
    guardian_->release(rank.pid);
    waitpid(rank.pid, nullptr, 0);
  }
  guardian_.reset();  // with the folder
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int Supervisor::run() {
  const Deadline job = options_.timeout ? Deadline::in(*options_.timeout) : Deadline::never();
  for (int rank = 0; rank < options_.ranks; ++rank) start(rank);
  while (left_ > 0) {
    if (stage_ == Stage::running && job.passed()) {
      say(text(running_ranks(), " still running after ",
               std::chrono::duration<double>(*options_.timeout).count(), " s (--timeout)"));
      fail(exit_code(ErrorKind::timeout));
      next_ = Deadline::in({});  // no time to notice a failure: the whole job took too long
    }
    advance();
    const auto wait = std::min({next_.left(), stage_ == Stage::running ? job.left() : next_.left(),
                                std::chrono::nanoseconds(std::chrono::hours(1))});
    const timespec time{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
    const int signal = sigtimedwait(&watched_, nullptr, &time);
    if (signal > 0) handle(signal);
  }
  return status_;
}

void Supervisor::start(int rank) {
  std::vector<std::string> arguments = options_.program;
  std::vector<std::string> lines =
      child_environment(inherited_, rank, options_.ranks, "file://" + folder_ + "/ranks", token_);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(lines);
  // A terminal cannot be read from a process group in the background: the rank would stop.
  const bool keeps_input = rank == 0 && isatty(STDIN_FILENO) == 0;
  int report[2];  // exec closes it; if exec fails errno comes through it
  if (pipe2(report, O_CLOEXEC) != 0) throw system_error("cannot create a pipe");
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become(argv.data(), envp.data(), keeps_input, launcher, *guardian_, before_);
    const int problem = errno;
    [[maybe_unused]] const ssize_t written = write(report[1], &problem, sizeof(problem));
    _exit(127);
  }
  const int fork_problem = errno;
  close(report[1]);
  int problem = 0;
  ssize_t got = 0;
  if (pid > 0) {
    while ((got = read(report[0], &problem, sizeof(problem))) < 0 && errno == EINTR) {
    }
  }
  close(report[0]);
  if (pid < 0)
    throw Error(ErrorKind::system, text("cannot start rank ", rank, ": ", std::strerror(fork_problem)));
  ranks_.push_back({pid, true});
  ++left_;
  if (got > 0) {
    throw Error(ErrorKind::usage,
                text("cannot start ", options_.program.front(), ": ", std::strerror(problem)));
  }
}

void Supervisor::handle(int signal) {
  if (signal == SIGCHLD) return reap();
  signal_all(signal);
  if (signal != SIGINT && signal != SIGTERM) return;
  if (++interrupts_ < 2 || stage_ == Stage::killed) return;
  say(text("killing ", running_ranks(), " after a second signal"));
  if (status_ == 0)
    status_ = exit_code(ErrorKind::peer_lost);  // what was killed cannot say that it succeeded
  signal_all(SIGKILL);
  stage_ = Stage::killed;
  next_ = Deadline::never();
}

void Supervisor::reap() {
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    Rank& process = ranks_[static_cast<std::size_t>(rank)];
    siginfo_t info{};
    if (!process.running ||
        waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != process.pid) {
      continue;
    }
    // The number of the rank's process group is not reused before the rank is reaped.
    kill(-process.pid, SIGKILL);
    guardian_->release(process.pid);
    waitpid(process.pid, nullptr, 0);
    process.running = false;
    --left_;
    ended(rank, info.si_code, info.si_status);
  }
}

void Supervisor::ended(int rank, int code, int status) {
  if (code == CLD_EXITED && status == 0) return;
  // Ranks that weft-launch itself ended are not reported.
  if (stage_ == Stage::asked || stage_ == Stage::killed) return;
  const pid_t pid = ranks_[static_cast<std::size_t>(rank)].pid;
  const std::string why = code == CLD_EXITED || status != SIGKILL ? "" : memory_limit_.reached();
  say(text("rank ", rank, " (pid ", pid, ") ",
           code == CLD_EXITED ? "ended with status " : "was killed by signal ", status,
           why.empty() ? "" : ": ", why));
  fail(code == CLD_EXITED ? status : exit_code(ErrorKind::peer_lost));
}

/// The first failure sets the status of the job.
void Supervisor::fail(int status) {
  if (status_ == 0) status_ = status;
  if (stage_ != Stage::running) return;
  stage_ = Stage::noticing;
  next_ = Deadline::in(to_notice);
}

void Supervisor::advance() {
  if (left_ == 0 || !next_.passed()) return;
  if (stage_ == Stage::noticing) {
    say(text("ending ", running_ranks()));
    signal_all(SIGTERM);
    signal_all(SIGCONT);  // a stopped rank could not end itself
    stage_ = Stage::asked;
    next_ = Deadline::in(to_end);
  } else if (stage_ == Stage::asked) {
    say(text("killing ", running_ranks()));
    signal_all(SIGKILL);
    stage_ = Stage::killed;
    next_ = Deadline::never();
  }
}

void Supervisor::signal_all(int signal) const {
  for (const Rank& rank : ranks_) {
    if (rank.running) kill(-rank.pid, signal);
  }
}

std::string Supervisor::running_ranks() const {
  constexpr int most = 16;
  std::string words;
  int count = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].running && ++count <= most) words += text(words.empty() ? "" : ", ", rank);
  }
  if (count > most) words += text(" and ", count - most, " more");
  return (count == 1 ? "rank " : "ranks ") + words;
}

}  // namespace weft::launch
