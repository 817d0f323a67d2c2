#include "run_command.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "child_environment.hpp"
#include "common/temporary_folder.hpp"
#include "core/base/host_port.hpp"
#include "job_watch.hpp"
#include "live_line.hpp"
#include "membership.hpp"
#include "mpirun_ranks.hpp"
#include "remote_ranks.hpp"
#include "restarts.hpp"
#include "supervisor.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

std::string new_folder() {
  std::string pattern = tool::temporary_folder() + "/weft-launch-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    throw system_error(text("cannot create ", pattern), "set TMPDIR to a folder that can be written");
  }
  return pattern;
}

/// The variables of this environment that ranks on other hosts get.
std::vector<std::string> exported(const std::vector<std::string>& inherited,
                                  const std::vector<std::string>& names) {
  static constexpr std::array<std::string_view, 4> families{"WEFT_", "NCCL_", "UCX_", "OMP_"};
  static constexpr std::array<std::string_view, 3> always{"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"};
  std::vector<std::string> lines;
  std::ranges::copy_if(inherited, std::back_inserter(lines), [&](std::string_view line) {
    const std::string_view name = line.substr(0, line.find('='));
    return std::ranges::find(always, name) != always.end() || std::ranges::find(names, name) != names.end() ||
           std::ranges::any_of(families, [&](auto family) { return name.starts_with(family); });
  });
  for (const std::string& name : names) {
    const std::string begin = name + "=";
    if (std::ranges::none_of(inherited, [&](const std::string& line) { return line.starts_with(begin); }))
      throw Error(ErrorKind::usage, text("-x ", name, ": this environment has no such variable"));
  }
  return lines;
}

/// Where the ranks of several hosts meet: HOST, HOST:PORT, or the first host; [::1]:PORT for IPv6.
std::string rendezvous_of(std::string address, const Host& first, std::size_t hosts) {
  if (address.empty()) address = first.address.empty() ? first.name : first.address;
  if (address == "localhost" && hosts > 1)
    throw Error(ErrorKind::usage, "the first host is localhost, which the others cannot reach",
                "name it as they know it, or give --address");
  const auto parts = detail::split_host_port(address);
  if (!parts) throw Error(ErrorKind::usage, text("the first host's name, '", address, "', is no address"));
  const std::string host = detail::bracketed(parts->host);
  if (parts->port) return text("tcp://", host, ':', *parts->port);
  constexpr int lowest = 61440;  // above the ports that the kernel assigns by itself
  std::random_device random;
  return text("tcp://", host, ':', std::uniform_int_distribution(lowest, detail::highest_port)(random));
}

Limits limits_of(const RunOptions& options) {
  return {options.timeout ? Deadline::in(*options.timeout) : Deadline::never(), options.grace};
}

void need_token() {
  const Environment environment = Environment::of_process();
  if (environment.has(env::token) || environment.has(env::token_file)) return;
  throw Error(ErrorKind::usage,
              text("the ranks of several nodes are to meet, and neither ", env::token.name, " nor ",
                   env::token_file.name, " is set"),
              "give every node the same secret, from openssl rand -hex 32");
}

int run_here(const RunOptions& options, const std::vector<std::string>& inherited) {
  const bool is_one_of_several = options.nodes > 1;
  if (is_one_of_several) need_token();
  Signals signals;
  const std::string folder = new_folder();  // private to the job; the ranks meet in it
  const Guardian guardian(folder);
  LiveLine live(options.labels && !options.quiet);
  Output output(true, live);
  Hear hear;
  if (options.labels)
    hear = [&output](int rank, int stream, std::string_view piece) { output.hear(rank, stream, piece); };
  const Limits limits = limits_of(options);
  Restarts restarts(options.restarts);
  const Share mine{options.ranks * options.node, options.ranks};
  while (true) {
    const Job job{options.program, inherited, options.ranks * options.nodes,
                  is_one_of_several ? rendezvous_of(options.address, {}, 2)
                                    : text("file://", folder, "/ranks", restarts.made()),
                  new_token()};
    LocalRanks ranks(job, mine, options.node == 0, hear, guardian, signals);
    live.begin(text(job.size, " ranks"), restarts.made());
    std::optional<JobWatch> watch;
    if (options.watch && options.node == 0)
      watch.emplace(watch_words(options, {{"", mine.count}}, inherited), inherited, guardian, signals);
    const Course course = Supervisor(ranks, signals, limits, live, nullptr, watch ? &*watch : nullptr).run();
    if (watch) watch->finish();
    for (int rank = 0; rank < mine.count; ++rank) output.end(mine.first + rank);
    if (course.status == 0) output.expect_written();
    if (!restarts.may_follow(course)) return course.status;
    say(text(restarts.words(), ": ", options.ranks, " ranks"));
  }
}

void expect_enough(const RunOptions& options, int ranks) {
  if (options.restarts && options.restarts->min_ranks > ranks)
    throw Error(ErrorKind::usage, text("--min-ranks ", options.restarts->min_ranks, " is more than the ",
                                       ranks, " ranks of the job"));
}

/// --address is where rank 0 is while the first host has it.
void expect_address(const RunOptions& options, const Membership& members, const Host& first) {
  if (!options.address.empty() && members.lost().contains(first.name))
    throw Error(ErrorKind::peer_lost,
                text("host ", first.name, " is lost, and rank 0 cannot listen at --address ", options.address,
                     " on another"),
                "instead of --address give each host's in the file: NAME address=HOST");
}

AgentOptions agents_of(const RunOptions& options, const std::vector<std::string>& inherited) {
  return {options.agent, std::filesystem::read_symlink("/proc/self/exe"), std::filesystem::current_path(),
          inherited, Environment::of_process().seconds(env::connect_timeout)};
}

std::vector<WatchedHost> watched(const std::vector<Host>& hosts, int ranks) {
  const std::vector<Share> shares = share_ranks(hosts, ranks);
  std::vector<WatchedHost> all;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    all.push_back({hosts[i].address.empty() ? hosts[i].name : hosts[i].address, shares[i].count});
  return all;
}

int run_on_hosts(const RunOptions& options, const std::vector<std::string>& inherited) {
  const std::vector<Host> all = read_hosts(*options.hosts);
  Membership members(all, options.ranks);
  expect_enough(options, members.most());
  Signals signals;
  const Guardian guardian("");
  LiveLine live(!options.quiet);
  Output output(options.labels, live);
  std::vector<std::string> program = options.program;
  program.front() = std::filesystem::absolute(program.front());
  const AgentOptions agents = agents_of(options, inherited);
  const Limits limits = limits_of(options);
  Restarts restarts(options.restarts);
  while (true) {
    const std::vector<Host> hosts = members.present();
    const int size = members.ranks();
    const Job job{program, exported(inherited, options.exports), size,
                  rendezvous_of(options.address, hosts.front(), all.size()), new_token()};
    RemoteRanks ranks(job, hosts, share_ranks(hosts, size), agents, output, guardian, signals);
    HostProbes lost(members.lost(), agents, guardian, signals);
    live.begin(words_of(members), restarts.made());
    std::optional<JobWatch> watch;
    if (options.watch)
      watch.emplace(watch_words(options, watched(hosts, size), inherited), inherited, guardian, signals);
    const Course course = Supervisor(ranks, signals, limits, live, &lost, watch ? &*watch : nullptr).run();
    if (watch) watch->finish();
    if (course.status == 0) output.expect_written();
    for (const std::string& host : course.back) members.regain(host);
    for (const std::string& host : course.lost) members.lose(host);
    if (!restarts.may_follow(course)) return course.status;
    const auto interrupted = await_hosts(members, *options.restarts, {agents, guardian, signals, limits.job});
    if (interrupted) return *interrupted;
    expect_address(options, members, all.front());
    say(text(restarts.words(), ": ", words_of(members)));
  }
}

/// mpirun reports that it failed, but not because of which host. So all hosts are probed, and those that answer take part.
int run_under_mpirun(const RunOptions& options, const std::vector<std::string>& inherited) {
  const std::vector<Host> all =
      options.hosts ? read_hosts(*options.hosts) : std::vector<Host>{{"", options.ranks, ""}};
  Membership members(all, options.ranks);
  expect_enough(options, members.most());
  Signals signals;
  const Guardian guardian("");
  const AgentOptions agents = agents_of(options, inherited);
  const Limits limits = limits_of(options);
  LiveLine none(false);  // ranks' output goes through mpirun
  Restarts restarts(options.restarts);
  while (true) {
    const std::vector<Host> hosts = options.hosts ? members.present() : std::vector<Host>{};
    MpirunRanks ranks({options.program, inherited, members.ranks(), "", ""}, hosts, guardian, signals);
    HostProbes lost(members.lost(), agents, guardian, signals);
    const Course course = Supervisor(ranks, signals, limits, none, &lost).run();
    for (const std::string& host : course.back) members.regain(host);
    if (!restarts.may_follow(course)) return course.status;
    if (options.hosts && !course.made_room) {
      for (const Host& host : all) members.lose(host.name);
    }
    const auto interrupted = await_hosts(members, *options.restarts, {agents, guardian, signals, limits.job});
    if (interrupted) return *interrupted;
    say(text(restarts.words(), ": ", options.hosts ? words_of(members) : text(members.ranks(), " ranks"),
             ", by mpirun"));
  }
}

}  // namespace

int run_job(const RunOptions& options, const std::vector<std::string>& inherited) {
  if (options.by_mpirun) return run_under_mpirun(options, inherited);
  return options.hosts ? run_on_hosts(options, inherited) : run_here(options, inherited);
}

}  // namespace weft::launch
