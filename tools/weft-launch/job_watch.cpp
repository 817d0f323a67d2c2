#include "job_watch.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include "core/base/host_port.hpp"
#include "core/base/strings.hpp"
#include "live_line.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

constexpr std::chrono::seconds to_conclude{20};  // for its last look: RAS may take 5 s, and so may ranks

/// The port of weft-scaling --metrics.
std::optional<int> metrics_port(const std::vector<std::string>& program) {
  constexpr std::string_view option = "--metrics";
  for (std::size_t i = 1; i < program.size(); ++i) {
    std::string_view word = program[i];
    if (!word.starts_with(option)) continue;
    word.remove_prefix(option.size());
    if (word.empty() && i + 1 < program.size()) {
      word = program[i + 1];
    } else if (word.starts_with('=')) {
      word.remove_prefix(1);
    } else {
      continue;
    }
    if (const auto port = detail::port_number(word)) return port;
  }
  return std::nullopt;
}

std::string value_of(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& line : environment) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == '=')
      return line.substr(name.size() + 1);
  }
  return {};
}

/// Makes the folder now, which the job would do later. @returns whether it is there
bool make_folder(const std::string& path) {
  std::error_code error;
  if (path.empty()) return false;
  std::filesystem::create_directories(path, error);
  return std::filesystem::is_directory(path, error);
}

std::string records_of(const std::vector<std::string>& environment) {
  const std::string own = value_of(environment, env::flight_dir.name);
  if (own != "off" && own != "auto" && make_folder(own)) return own;
  const std::string torch = value_of(environment, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
  const std::string folder = std::filesystem::path(torch).parent_path();
  return make_folder(folder) ? folder : std::string();
}

std::string ports_of(const WatchedHost& host, int port) {
  const std::string where = host.address.empty() ? "localhost" : detail::bracketed(host.address);
  return text(where, ':', port, '-', port + host.ranks - 1);
}

}  // namespace

std::vector<std::string> watch_words(const RunOptions& options, const std::vector<WatchedHost>& hosts,
                                     const std::vector<std::string>& environment) {
  std::vector<std::string> words{*options.watch, "watch", "--until-closed", "--timeout", "5"};
  const auto add = [&words](const char* option, const std::string& value) {
    words.emplace_back(option);
    words.push_back(value);
  };
  const auto port = options.watch_port ? options.watch_port : metrics_port(options.program);
  const bool here = hosts.size() == 1 && hosts.front().address.empty();
  if (!port && !here && value_of(environment, "NCCL_RAS_ADDR").empty())
    throw Error(
        ErrorKind::usage,
        "--watch: nobody could be asked: it is not known where ranks serve metrics, and RAS listens on "
        "each host's own loopback address",
        "give --watch-port PORT if the program serves them (weft::Metrics), or set NCCL_RAS_ADDR to "
        "an address of the first host that this machine reaches");
  for (const WatchedHost& host : hosts) {
    if (port && host.ranks > 0) add("--ranks", ports_of(host, *port));
  }
  if (const std::string records = records_of(environment); !records.empty()) add("--records", records);
  if (const std::string folder = value_of(environment, "NCCL_INSPECTOR_DUMP_DIR"); make_folder(folder))
    add("--inspector", folder);
  return words;
}

JobWatch::JobWatch(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                   const Guardian& guardian, const Signals& signals) {
  int to_it[2];
  int from_it[2];
  // Not a pipe: writing to a watch that has ended raises no signal.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to_it) != 0)
    throw system_error("cannot create a socket");
  const detail::Descriptor its_input(to_it[0]);
  input_.reset(to_it[1]);
  if (pipe2(from_it, O_CLOEXEC) != 0) throw system_error("cannot create a pipe");
  const detail::Descriptor its_output(from_it[1]);
  output_.reset(from_it[0]);
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  process_.emplace(ChildOptions{words, environment, {its_input.get(), its_output.get(), its_output.get()}},
                   guardian, signals);
}

void JobWatch::tell(const std::string& line) const {
  const std::string words = text("weft-launch: ", detail::printable(line), '\n');
  (void)::send(input_.get(), words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void JobWatch::watch(std::vector<pollfd>& all) const {
  if (output_.get() >= 0) all.push_back({output_.get(), POLLIN, 0});
}

void JobWatch::collect() {
  std::array<char, 4096> piece;
  ssize_t got = 0;
  while (output_.get() >= 0) {
    got = read(output_.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;  // nothing more for now
    begun_.append(piece.data(), static_cast<std::size_t>(got));
    pass_on(got == 0);
    if (got == 0) output_.reset();
  }
  (void)process_->ended();
}

void JobWatch::pass_on(bool at_end) {
  if (at_end && !begun_.empty()) begun_ += '\n';
  for (std::size_t end = 0; (end = begun_.find('\n')) != std::string::npos; begun_.erase(0, end + 1)) {
    if (end > 0) say(text("watch: ", begun_.substr(0, end)));
  }
}

void JobWatch::finish() {
  input_.reset();
  const Deadline end = Deadline::in(to_conclude);
  for (collect(); output_.get() >= 0 && !end.passed(); collect()) {
    pollfd one{.fd = output_.get(), .events = POLLIN, .revents = 0};
    (void)poll(&one, 1, 100);
  }
  if (output_.get() >= 0)
    say(text("the watch came to no end within ", to_conclude.count(), " s, and is killed"));
}

}  // namespace weft::launch
