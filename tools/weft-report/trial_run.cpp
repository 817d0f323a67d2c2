#include "trial_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_output = std::size_t{16} << 20;
constexpr std::size_t most_errors = std::size_t{64} << 10;  // the last
constexpr auto grace = std::chrono::seconds(5);             // between SIGTERM and SIGKILL
constexpr int look_every = 50;                              // ms

std::atomic<pid_t> running{0};

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) throw system_error("cannot create a pipe");
  }
  ~Pipe() {
    close_writer();
    close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  /// @return false at its end
  bool read_into(std::string& content) const {
    std::array<char, 65536> part;
    const ssize_t got = read(ends_[0], part.data(), part.size());
    if (got > 0) content.append(part.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

std::vector<char*> pointers(std::vector<std::string>& lines) {
  std::vector<char*> all;
  for (std::string& line : lines) all.push_back(line.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> lines;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string line = *at;
    if (!variables.contains(line.substr(0, line.find('=')))) lines.push_back(line);
  }
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

/// Between fork and exec; async-signal-safe calls only. Returns when something failed, with errno.
void become(char* const* words, char* const* environment, int output, int errors, pid_t parent) {
  if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return;
  if (getppid() != parent) _exit(1);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0) return;
  execvpe(words[0], words, environment);
}

pid_t start(std::vector<std::string> words, const std::map<std::string, std::string>& variables,
            const Pipe& output, const Pipe& errors) {
  std::vector<std::string> lines = environment_with(variables);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(lines);
  Pipe report;  // exec closes it; if exec fails errno comes through it
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw system_error("cannot start a process");
  if (child == 0) {
    become(argv.data(), envp.data(), output.writer(), errors.writer(), parent);
    const int problem = errno;
    [[maybe_unused]] const ssize_t written = ::write(report.writer(), &problem, sizeof(problem));
    _exit(127);
  }
  report.close_writer();
  int problem = 0;
  ssize_t got = 0;
  while ((got = read(report.reader(), &problem, sizeof(problem))) < 0 && errno == EINTR) {
  }
  if (got <= 0) return child;
  waitpid(child, nullptr, 0);
  throw Error(ErrorKind::usage, text("cannot start ", words.front(), ": ", std::strerror(problem)));
}

/// Reads both pipes until the child has ended and nothing more is there, or until `end`. @return whether it has ended
bool read_until(pid_t child, Pipe& output, Pipe& errors, std::string& out, std::string& err,
                Clock::time_point end) {
  std::array<pollfd, 2> pipes{pollfd{output.reader(), POLLIN, 0}, pollfd{errors.reader(), POLLIN, 0}};
  while (Clock::now() < end) {
    siginfo_t info{};
    const bool ended = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                       info.si_pid == child;
    const int ready = poll(pipes.data(), pipes.size(), ended ? 0 : look_every);
    if (ready > 0) {
      if (pipes[0].revents != 0 && !output.read_into(out)) pipes[0].fd = -1;
      if (pipes[1].revents != 0 && !errors.read_into(err)) pipes[1].fd = -1;
      if (out.size() > most_output) return false;
      if (err.size() > 2 * most_errors) err.erase(0, err.size() - most_errors);
    } else if (ended) {
      return true;
    }
    // A pipe that is over is not polled any more; the child may still run.
    if (pipes[0].fd < 0 && pipes[1].fd < 0 && !ended) usleep(look_every * 1000);
    if (pipes[0].fd < 0 && pipes[1].fd < 0 && ended) return true;
  }
  return false;
}

std::string last_line(const std::string& first, const std::string& second) {
  for (const std::string& words : {first, second}) {
    const std::size_t end = words.find_last_not_of(" \r\n\t");
    if (end == std::string::npos) continue;
    const std::size_t feed = words.rfind('\n', end);
    const std::size_t begin = feed == std::string::npos ? 0 : feed + 1;
    return text("; its last line: ", words.substr(begin, std::min<std::size_t>(end + 1 - begin, 200)));
  }
  return "";
}

}  // namespace

TrialRun run_trial(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables,
                   std::chrono::duration<double> deadline) {
  TrialRun run;
  std::string errors;
  Pipe output_pipe;
  Pipe error_pipe;
  const pid_t child = start(words, variables, output_pipe, error_pipe);
  running = child;
  output_pipe.close_writer();
  error_pipe.close_writer();
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(deadline);
  bool ended = read_until(child, output_pipe, error_pipe, run.output, errors, end);
  const bool flooded = run.output.size() > most_output;
  if (!ended) {
    kill(-child, SIGTERM);
    read_until(child, output_pipe, error_pipe, run.output, errors, Clock::now() + grace);
  }
  // What it has started ends with it. The number of its group is not reused before it is reaped.
  kill(-child, SIGKILL);
  running = 0;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (flooded)
    run.problem = "it printed more than 16 MiB";
  else if (!ended)
    run.problem = text("it took longer than ", deadline.count(), " s");
  else if (WIFSIGNALED(status))
    run.problem = text("it was ended by signal ", WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    run.problem = text("it ended with status ", WEXITSTATUS(status));
  if (!run.problem.empty()) run.problem += last_line(errors, run.output);
  return run;
}

void end_trial() {
  const pid_t child = running;
  if (child > 0) kill(-child, SIGTERM);
}

}  // namespace weft::report
