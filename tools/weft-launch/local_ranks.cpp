#include "local_ranks.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "child_environment.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {

Ended Finished::described(const std::string& place) const {
  return {rank, end.by_signal ? exit_code(ErrorKind::peer_lost) : end.status,
          text("rank ", rank, " (pid ", pid, place, ") ",
               end.by_signal ? "was killed by signal " : "ended with status ", end.status,
               why.empty() ? "" : ": ", why),
          end.by_signal ? end.status : 0};
}

LocalRanks::LocalRanks(Job job, Share share, bool may_read_input, Hear hear, const Guardian& guardian,
                       const Signals& signals)
    : job_(std::move(job)),
      share_(share),
      may_read_input_(may_read_input),
      hear_(std::move(hear)),
      guardian_(guardian),
      signals_(signals) {}

void LocalRanks::start() {
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.get() < 0) throw system_error("cannot open /dev/null");
  for (int i = 0; i < share_.count; ++i) {
    ranks_.emplace_back().number = share_.first + i;
    start(ranks_.back(), nothing);
  }
}

std::vector<std::string> LocalRanks::environment_of(const Rank& rank) const {
  const Placement place{rank.number, job_.size, rank.number - share_.first, share_.count};
  return child_environment(job_.inherited, place, job_.rendezvous, job_.token);
}

void LocalRanks::start(Rank& rank, const Descriptor& nothing) {
  ChildOptions options{job_.program, environment_of(rank)};
  // A terminal cannot be read from a process group in the background: the rank would stop.
  const bool keeps_input = may_read_input_ && rank.number == 0 && isatty(STDIN_FILENO) == 0;
  if (!keeps_input) options.streams[0] = nothing.get();
  std::array<Descriptor, 2> theirs;
  for (const int stream : {1, 2}) {
    if (!hear_) break;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw system_error("cannot create a pipe");
    Descriptor& ours = stream == 1 ? rank.output : rank.errors;
    ours.reset(ends[0]);
    theirs[static_cast<std::size_t>(stream - 1)].reset(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    options.streams[static_cast<std::size_t>(stream)] = ends[1];
  }
  rank.process.emplace(options, guardian_, signals_);
}

std::vector<int> LocalRanks::running() const {
  std::vector<int> numbers;
  for (const Rank& rank : ranks_) {
    if (rank.process && rank.process->is_running()) numbers.push_back(rank.number);
  }
  return numbers;
}

void LocalRanks::signal_all(int signal) {
  is_ending_ = is_ending_ || signal == SIGTERM || signal == SIGINT || signal == SIGKILL;
  for (const Rank& rank : ranks_) {
    if (rank.process) rank.process->signal(signal);
  }
}

void LocalRanks::watch(std::vector<pollfd>& all) const {
  for (const Rank& rank : ranks_) {
    if (rank.output.get() >= 0) all.push_back({rank.output.get(), POLLIN, 0});
    if (rank.errors.get() >= 0) all.push_back({rank.errors.get(), POLLIN, 0});
  }
}

std::vector<Ended> LocalRanks::collect() {
  std::vector<Ended> all;
  for (const Finished& one : finished()) all.push_back(one.described());
  return all;
}

std::vector<Finished> LocalRanks::finished() {
  std::vector<Finished> all;
  for (Rank& rank : ranks_) {
    const auto end = rank.process->ended();
    pass_on(rank);  // after its end all that it wrote is there
    if (!end) continue;
    rank.output.reset();
    rank.errors.reset();
    const bool is_killed = end->by_signal && end->status == SIGKILL;
    all.push_back({rank.number, rank.process->pid(), *end, is_killed ? memory_limit_.reached() : ""});
    tell_others(all.back());
  }
  return all;
}

/// Tells ranks that still meet why this one ended; not if it succeeded, or ended because it lost another rank.
void LocalRanks::tell_others(const Finished& one) {
  const ChildProcess::End& end = one.end;
  const bool is_cause = end.by_signal || (end.status != 0 && end.status != exit_code(ErrorKind::peer_lost));
  if (!is_cause || is_ending_) return;
  notice_.tell(environment_of({.number = one.rank}), one.rank,
               text(end.by_signal ? "it was killed by signal " : "it ended with status ", end.status));
}

void LocalRanks::pass_on(Rank& rank) {
  pass_on(rank, 1, rank.output);
  pass_on(rank, 2, rank.errors);
}

/// Passes on what the pipe holds now: at the end of a rank, all that is left. If a rank writes without end, the amount for each call is bounded.
void LocalRanks::pass_on(const Rank& rank, int stream, Descriptor& from) const {
  std::array<char, 64 << 10> piece;
  constexpr int most = 16;  // times that is the most that a pipe may be made to hold
  for (int i = 0; i < most && from.get() >= 0; ++i) {
    const ssize_t got = read(from.get(), piece.data(), piece.size());
    if (got > 0) hear_(rank.number, stream, {piece.data(), static_cast<std::size_t>(got)});
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) from.reset();
    if (got <= 0) return;
  }
}

}  // namespace weft::launch
