#include "weft-report/profiler/service.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>

#include "weft-report/profiler/texts.hpp"

namespace weft::profiler {
namespace {

constexpr int ports_tried = 64;
constexpr int textfile_every_ms = 15000;
constexpr int look_every_ms =
    2000;  // for the file that asks; a job may have thousands of processes on one file system
constexpr int client_patience_ms = 1000;
constexpr std::size_t most_request = 8192;

std::atomic<int> signalled{-1};  // an eventfd; a handler may do hardly more than write to it

void on_signal(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  const int into = signalled.load(std::memory_order_relaxed);
  if (into >= 0) [[maybe_unused]]
    const ssize_t written = ::write(into, &one, sizeof(one));
  errno = saved;
}

std::string why() {
  return std::strerror(errno);
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Moment moment_now() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return {.host = host.data(),
          .pid = getpid(),
          .steady_ns = steady_now(),
          .wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count()};
}

/// Whole or not at all; a link in its place is not followed. @return what went wrong
std::string write_file(const std::string& path, const std::string& content, mode_t mode) {
  const std::string draft = path + "." + std::to_string(getpid()) + ".part";
  ::unlink(draft.c_str());
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0) return draft + ": cannot be written: " + why();
  std::size_t done = 0;
  std::string problem;
  while (done < content.size() && problem.empty()) {
    const ssize_t written = ::write(file, content.data() + done, content.size() - done);
    if (written > 0) done += static_cast<std::size_t>(written);
    if (written < 0 && errno != EINTR) problem = draft + ": cannot be written: " + why();
  }
  if (::close(file) != 0 && problem.empty()) problem = draft + ": cannot be written: " + why();
  if (problem.empty() && ::rename(draft.c_str(), path.c_str()) != 0)
    problem = path + ": cannot be written: " + why();
  if (!problem.empty()) ::unlink(draft.c_str());
  return problem;
}

std::string make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return path + ": cannot be made: " + why();
}

int listen_on(int port, int& taken) {
  for (int next = port; next < port + ports_tried && next < 65536; ++next) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) return -1;
    const int yes = 1;
    ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(next));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
        ::listen(listener, 16) == 0) {
      taken = next;
      return listener;
    }
    const int problem = errno;
    ::close(listener);
    errno = problem;
    if (problem != EADDRINUSE) return -1;
  }
  return -1;
}

bool ready(int descriptor, short events, int milliseconds) {
  pollfd one{descriptor, events, 0};
  return ::poll(&one, 1, milliseconds) > 0;
}

/// One request a connection. Who sends none, or reads nothing, is left after a second.
void answer(int client, const std::string& body) {
  std::string request;
  std::array<char, 1024> chunk{};
  while (request.find("\r\n\r\n") == std::string::npos && request.size() < most_request) {
    if (!ready(client, POLLIN, client_patience_ms)) return;
    const ssize_t got = ::recv(client, chunk.data(), chunk.size(), 0);
    if (got <= 0) return;
    request.append(chunk.data(), static_cast<std::size_t>(got));
  }
  const bool known = request.starts_with("GET / ") || request.starts_with("GET /metrics ");
  const std::string& content = known ? body : std::string("try /metrics\n");
  const std::string head =
      std::string("HTTP/1.1 ") + (known ? "200 OK" : "404 Not Found") +
      "\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: " +
      std::to_string(content.size()) + "\r\n\r\n";
  const std::string whole = head + content;
  for (std::size_t sent = 0; sent < whole.size();) {
    if (!ready(client, POLLOUT, client_patience_ms)) return;
    const ssize_t some = ::send(client, whole.data() + sent, whole.size() - sent, MSG_NOSIGNAL);
    if (some <= 0) return;
    sent += static_cast<std::size_t>(some);
  }
}

}  // namespace

Settings settings_from_environment() {
  Settings settings{.folder = from_environment("WEFT_PROFILER_DIR"),
                    .textfile = from_environment("WEFT_PROFILER_TEXTFILE")};
  const std::string port = from_environment("WEFT_PROFILER_PORT");
  if (port.empty()) return settings;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), settings.port);
  if (error != std::errc() || end != port.data() + port.size() || settings.port < 1 ||
      settings.port > 65535) {
    settings.port = 0;
    settings.problems.push_back(
        "WEFT_PROFILER_PORT is no port: allowed is 1 to 65535; no figures are served");
  }
  return settings;
}

struct Service::State {
  Recorder& recorder;
  Settings settings;
  Say say;
  int wake = -1;    // an eventfd: end
  int signal = -1;  // an eventfd: SIGUSR2 came
  int listener = -1;
  int port = 0;
  bool handles = false;
  struct sigaction before {};
  bool told_of_textfile = false;
  std::int64_t answered = 0;  // when the file was changed that was answered last
  std::int64_t next_textfile = 0;
  std::int64_t next_look = 0;
  std::thread thread{};

  std::string textfile() const {
    return settings.textfile + "/weft-nccl-" + std::to_string(getpid()) + ".prom";
  }

  std::string figures() { return metrics(recorder.snapshots(), recorder.totals(), moment_now()); }

  void write_textfile() {
    if (settings.textfile.empty()) return;
    const std::string problem = write_file(textfile(), figures(), 0644);
    if (!problem.empty() && !told_of_textfile) say(true, problem);
    told_of_textfile = told_of_textfile || !problem.empty();
  }

  std::string write_all() {
    const Moment moment = moment_now();
    const std::vector<Snapshot> all = recorder.snapshots();
    std::string problem = make_folder(settings.folder);
    int records = 0;
    for (const Snapshot& one : all) {
      const std::string content = flight_record(one, moment);
      if (content.empty() || !problem.empty()) continue;
      const std::string folder = settings.folder + "/" + folder_of(one.about);
      problem = make_folder(folder);
      if (problem.empty())
        problem = write_file(folder + "/rank-" + std::to_string(one.about.rank) + ".json", content, 0600);
      if (problem.empty()) ++records;
    }
    const std::string path =
        settings.folder + "/trace-" + moment.host + "-" + std::to_string(moment.pid) + ".json";
    if (problem.empty()) problem = write_file(path, trace(all, moment), 0600);
    if (problem.empty())
      say(false, std::to_string(records) + " flight records in " + settings.folder +
                     "/comm-*, which weft-report flight reads, and a trace in " + path);
    else
      say(true, problem);
    return problem;
  }

  /// When the file was changed last; 0: it is not there.
  std::int64_t asked_at() const {
    struct stat status {};
    if (::stat((settings.folder + "/now").c_str(), &status) != 0) return 0;
    return std::int64_t{status.st_mtim.tv_sec} * 1000000000 + status.st_mtim.tv_nsec;
  }
  void look_for_question() {
    const std::int64_t at = settings.folder.empty() ? 0 : asked_at();
    if (at == 0 || at == answered) return;
    answered = at;
    write_all();
  }

  /// What is due every so often. @return milliseconds until the next of it; -1: nothing ever is
  int do_what_is_due() {
    const std::int64_t now = steady_now();
    const auto due = [&](std::int64_t& at, int every_ms) {
      if (now < at) return false;
      at = now + std::int64_t{every_ms} * 1000000;
      return true;
    };
    if (!settings.textfile.empty() && due(next_textfile, textfile_every_ms)) write_textfile();
    if (!settings.folder.empty() && due(next_look, look_every_ms)) look_for_question();
    std::int64_t next = INT64_MAX;
    if (!settings.textfile.empty()) next = std::min(next, next_textfile);
    if (!settings.folder.empty()) next = std::min(next, next_look);
    return next == INT64_MAX ? -1
                             : static_cast<int>(std::max<std::int64_t>(next - steady_now(), 0) / 1000000 + 1);
  }

  void serve() {
    for (;;) {
      const int until = do_what_is_due();
      std::array<pollfd, 3> waits{pollfd{wake, POLLIN, 0}, pollfd{signal, POLLIN, 0},
                                  pollfd{listener, POLLIN, 0}};
      const int got = ::poll(waits.data(), waits.size(), until);
      if (got < 0 && errno != EINTR) return;
      if (got <= 0) continue;
      if (waits[0].revents != 0) return;
      if ((waits[1].revents & POLLIN) != 0) {
        std::uint64_t count = 0;
        if (::read(signal, &count, sizeof(count)) == sizeof(count)) write_all();
      }
      if ((waits[2].revents & POLLIN) != 0) {
        const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client < 0) continue;
        answer(client, figures());
        ::close(client);
      }
    }
  }

  void handle_signal() {
    struct sigaction now {};
    if (::sigaction(SIGUSR2, nullptr, &now) != 0) return;
    const bool free =
        (now.sa_flags & SA_SIGINFO) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
    if (!free) {
      say(false, "SIGUSR2 has a handler of the program; it is left alone, and nothing is written on it");
      return;
    }
    signal = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signal < 0) return say(true, "cannot wait for SIGUSR2: " + why());
    signalled.store(signal);
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    handles = ::sigaction(SIGUSR2, &action, &before) == 0;
  }
};

Service::Service(Recorder& recorder, Settings settings, Say say)
    : state_(std::make_unique<State>(
          State{.recorder = recorder, .settings = std::move(settings), .say = std::move(say)})) {
  State& state = *state_;
  for (const std::string& problem : state.settings.problems) state.say(true, problem);
  if (!state.settings.folder.empty()) {
    state.answered = state.asked_at();  // an earlier job's question
    state.handle_signal();
  }
  if (state.settings.port > 0) {
    state.listener = listen_on(state.settings.port, state.port);
    if (state.listener < 0)
      state.say(true, "no port from " + std::to_string(state.settings.port) + " on can be served: " + why());
    else
      state.say(false, "figures for Prometheus on 127.0.0.1:" + std::to_string(state.port));
  }
  state.wake = ::eventfd(0, EFD_CLOEXEC);
  if (state.wake < 0) {
    state.say(true, "no thread beside the job: " + why());
    return;
  }
  // Signals of the program are for its own threads.
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    state.thread = std::thread([&state] { state.serve(); });
  } catch (const std::system_error& error) {
    state.say(true, "no thread beside the job: " + error.code().message());
  } catch (const std::bad_alloc&) {
    state.say(true, "no thread beside the job: there is no memory for it");
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

Service::~Service() {
  State& state = *state_;
  if (state.handles) {
    struct sigaction now {};
    ::sigaction(SIGUSR2, nullptr, &now);
    if (now.sa_handler == on_signal) ::sigaction(SIGUSR2, &state.before, nullptr);
  }
  signalled.store(-1);
  if (state.thread.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(state.wake, &one, sizeof(one));
    state.thread.join();
  }
  if (!state.settings.textfile.empty()) ::unlink(state.textfile().c_str());
  for (const int descriptor : {state.wake, state.signal, state.listener}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

std::string Service::write_all() {
  return state_->write_all();
}
int Service::port() const {
  return state_->port;
}

}  // namespace weft::profiler
