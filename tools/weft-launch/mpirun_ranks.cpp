#include "mpirun_ranks.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "child_environment.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

/// Options of mpirun that take values, and how many. Options for the number of ranks and the hosts are not among them: weft-launch sets them.
const std::map<std::string_view, int> words_after{{"--mca", 2},
                                                  {"-mca", 2},
                                                  {"--gmca", 2},
                                                  {"-x", 1},
                                                  {"--bind-to", 1},
                                                  {"-bind-to", 1},
                                                  {"--map-by", 1},
                                                  {"-map-by", 1},
                                                  {"--rank-by", 1},
                                                  {"--prefix", 1},
                                                  {"--wdir", 1},
                                                  {"-wdir", 1},
                                                  {"--wd", 1},
                                                  {"-wd", 1},
                                                  {"--timeout", 1},
                                                  {"--path", 1},
                                                  {"-path", 1},
                                                  {"--am", 1},
                                                  {"--output-filename", 1},
                                                  {"--tune", 1}};
const std::set<std::string_view> ours{"-n",
                                      "-np",
                                      "--np",
                                      "-c",
                                      "--n",
                                      "-H",
                                      "-host",
                                      "--host",
                                      "-hostfile",
                                      "--hostfile",
                                      "-machinefile",
                                      "--machinefile",
                                      "--default-hostfile"};

}  // namespace

bool is_mpirun(const std::vector<std::string>& program) {
  static const std::set<std::string> names{"mpirun", "mpiexec", "orterun", "mpirun.openmpi",
                                           "mpiexec.openmpi"};
  if (!names.contains(std::filesystem::path(program.front()).filename())) return false;
  for (std::size_t at = 1; at < program.size() && program[at].starts_with('-');) {
    if (ours.contains(program[at]))
      throw Error(ErrorKind::usage, text(program[at], " of ", program.front(), " is weft-launch's to say"),
                  "give weft-launch -n, and --hosts FILE for hosts; it tells mpirun those that are left");
    const auto more = words_after.find(program[at]);
    at += 1 + static_cast<std::size_t>(more == words_after.end() ? 0 : more->second);
  }
  return true;
}

MpirunRanks::MpirunRanks(const Job& job, const std::vector<Host>& hosts, const Guardian& guardian,
                         const Signals& signals)
    : size_(job.size), guardian_(guardian), signals_(signals) {
  std::vector<std::string>& words = options_.program;
  words = {job.program.front(), "-n", std::to_string(job.size)};
  std::string list;
  for (const Host& host : hosts) list += text(list.empty() ? "" : ",", host.name, ':', host.slots);
  if (!hosts.empty()) words.insert(words.end(), {"--host", list});
  words.insert(words.end(), job.program.begin() + 1, job.program.end());
  std::ranges::copy_if(job.inherited, std::back_inserter(options_.environment),
                       [](std::string_view line) { return !names_a_rank(line.substr(0, line.find('='))); });
}

void MpirunRanks::start() {
  process_.emplace(options_, guardian_, signals_);
}

std::vector<int> MpirunRanks::running() const {
  std::vector<int> all;
  if (!process_ || !process_->is_running()) return all;
  all.resize(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void MpirunRanks::signal_all(int signal) {
  if (process_) process_->signal(signal);
}

std::vector<Ended> MpirunRanks::collect() {
  const auto end = process_->ended();
  if (!end) return {};
  return {{-1, end->by_signal ? exit_code(ErrorKind::peer_lost) : end->status,
           text("mpirun (pid ", process_->pid(), ") ",
                end->by_signal ? "was killed by signal " : "ended with status ", end->status),
           end->by_signal ? end->status : 0}};
}

}  // namespace weft::launch
