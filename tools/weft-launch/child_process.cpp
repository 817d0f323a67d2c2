#include "child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

std::vector<char*> pointers(std::vector<std::string>& lines) {
  std::vector<char*> all;
  for (std::string& line : lines) all.push_back(line.data());
  all.push_back(nullptr);
  return all;
}

/// Between fork and exec; async-signal-safe calls only. Returns when something failed, with errno.
void become(char* const* arguments, char* const* environment, const std::array<int, 3>& streams,
            pid_t launcher, const Guardian& guardian, const sigset_t& mask) {
  if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  guardian.watch(getpid());
  if (getppid() != launcher) _exit(1);  // the launcher was killed before the line above
  for (int stream = 0; stream < 3; ++stream) {
    const int source = streams[static_cast<std::size_t>(stream)];
    if (source >= 0 && dup2(source, stream) < 0) return;
  }
  if (sigprocmask(SIG_SETMASK, &mask, nullptr) != 0) return;
  execve(arguments[0], arguments, environment);
}

}  // namespace

ChildProcess::ChildProcess(const ChildOptions& options, const Guardian& guardian, const Signals& signals)
    : guardian_(guardian) {
  std::vector<std::string> arguments = options.program;
  std::vector<std::string> lines = options.environment;
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(lines);
  int report[2];  // exec closes it; if exec fails errno comes through it
  if (pipe2(report, O_CLOEXEC) != 0) throw system_error("cannot create a pipe");
  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    become(argv.data(), envp.data(), options.streams, launcher, guardian, signals.before());
    const int problem = errno;
    [[maybe_unused]] const ssize_t written = write(report[1], &problem, sizeof(problem));
    _exit(127);
  }
  const int fork_problem = errno;
  close(report[1]);
  int problem = 0;
  ssize_t got = 0;
  if (pid_ > 0) {
    is_running_ = true;
    while ((got = read(report[0], &problem, sizeof(problem))) < 0 && errno == EINTR) {
    }
  }
  close(report[0]);
  if (pid_ < 0) throw Error(ErrorKind::system, text("cannot start a process: ", std::strerror(fork_problem)));
  if (got <= 0) return;
  waitpid(pid_, nullptr, 0);
  is_running_ = false;
  guardian_.release(pid_);
  throw Error(ErrorKind::usage, text("cannot start ", options.program.front(), ": ", std::strerror(problem)));
}

ChildProcess::~ChildProcess() {
  if (!is_running_) return;
  signal(SIGKILL);
  guardian_.release(pid_);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::signal(int signal) const {
  if (is_running_) kill(-pid_, signal);
}

std::optional<ChildProcess::End> ChildProcess::ended() {
  siginfo_t info{};
  if (!is_running_ || waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_) {
    return std::nullopt;
  }
  // The number of its process group is not reused before it is reaped.
  kill(-pid_, SIGKILL);
  guardian_.release(pid_);
  waitpid(pid_, nullptr, 0);
  is_running_ = false;
  return End{info.si_code != CLD_EXITED, info.si_status};
}

}  // namespace weft::launch
