// A rank for the launch tests: makes a World from its environment, gathers, prints what it learned, and fails
// as told.
//
//   probe                     gathers twice, splits into even and odd ranks, gathers there
//   probe exit RANK STATUS    RANK leaves with STATUS, the others gather with it and sleep
//   probe kill RANK           the same by SIGKILL
//   probe absent RANK         RANK sleeps and never gathers
//   probe signal              every rank sleeps until SIGUSR1, prints it and ends
//   probe deaf                every rank ignores SIGTERM and sleeps; rank 0 fails
//   probe restarted RANK TIMES MOMENT HOW    all ranks sum, in two communicators; RANK ends in its torchrun agent's first TIMES attempts,
//                             before they "meet" or between two "sum"s, by "kill", or "exit"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/collectives/world.hpp"
#include "weft/core/error.hpp"

namespace {

using namespace std::chrono_literals;

void say(const std::string& line) {
  std::cout << line + "\n" << std::flush;
}

int gather(weft::World& world) {
  const weft::Deadline deadline = weft::Deadline::in(world.connect_timeout());
  const std::string mine = weft::text("note ", world.rank());
  for (int round = 0; round < 2; ++round) {
    const std::vector<std::string> notes = world.rendezvous()->all_gather(mine, "probe", deadline);
    for (std::size_t rank = 0; rank < notes.size(); ++rank) {
      if (notes[rank] != weft::text("note ", rank)) return 1;
    }
  }
  std::vector<int> members;
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) members.push_back(rank);
  const auto group = world.rendezvous()->split(members);
  const std::vector<std::string> group_notes = group->all_gather(mine, "probe group", deadline);
  if (group_notes.size() != members.size() || group_notes.back() != weft::text("note ", members.back()))
    return 1;
  say(weft::text("rank ", world.rank(), " of ", world.size(), " by ", name(world.launcher()), ", group ",
                 group->rank(), " of ", group->size()));
  return 0;
}

void all_sum(weft::Communicator& comm) {
  std::vector<float> ones(1000, 1.0F);
  comm.all_reduce(weft::View(std::span(ones)), weft::ReduceOp::sum, weft::Stream()).wait();
  if (ones != std::vector<float>(1000, static_cast<float>(comm.size())))
    throw weft::Error(weft::ErrorKind::internal, "a wrong sum");
}

int restarted(const std::vector<std::string>& words) {
  const auto variable = [](const char* name) { return std::string(std::getenv(name)); };
  const auto may_end = [&](const std::string& moment) {
    const int attempt = std::stoi(variable("TORCHELASTIC_RESTART_COUNT"));
    if (words[3] != moment || variable("RANK") != words[1] || attempt >= std::stoi(words[2])) return;
    if (words[4] == "kill") std::raise(SIGKILL);
    _exit(3);
  };
  may_end("meet");
  weft::Communicator first = weft::connect(weft::World::from_environment());
  all_sum(first);
  const bool through_agent = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";  // else its port is taken
  weft::Communicator second =
      through_agent ? weft::connect(weft::World::from_environment()) : first.split(0, first.rank()).value();
  all_sum(second);
  may_end("sum");
  all_sum(first);
  all_sum(second);
  say(weft::text("rank ", first.rank(), " finished"));
  return 0;
}

int play(const std::vector<std::string>& words) {
  const std::string mode = words.empty() ? "gather" : words[0];
  if (mode == "restarted") return restarted(words);
  const int who = words.size() > 1 ? std::stoi(words[1]) : -1;
  // Before the World: a signal may come while the ranks still meet.
  sigset_t notice;
  sigemptyset(&notice);
  sigaddset(&notice, SIGUSR1);
  if (mode == "signal") sigprocmask(SIG_BLOCK, &notice, nullptr);
  if (mode == "deaf") std::signal(SIGTERM, SIG_IGN);

  weft::World world = weft::World::from_environment();
  const bool chosen = world.rank() == who;
  if (mode == "exit" && chosen) return std::stoi(words[2]);
  if (mode == "kill" && chosen) std::raise(SIGKILL);
  // A rank that comes after rank 0 has gone would fail first.
  if (mode == "deaf") world.rendezvous()->all_gather("", "deaf", weft::Deadline::in(30s));
  if (mode == "deaf" && world.rank() == 0) return 3;
  if (mode == "deaf" || (mode == "absent" && chosen)) {
    say(weft::text("rank ", world.rank(), " sleeps"));
    sleep(60);
    return 0;
  }
  if (mode == "signal") {
    world.rendezvous()->all_gather("", "signal", weft::Deadline::in(10s));
    say(weft::text("rank ", world.rank(), " waits"));
    int signal = 0;
    sigwait(&notice, &signal);
    say(weft::text("rank ", world.rank(), " got signal ", signal));
    return 0;
  }
  return gather(world);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return play({argv + 1, argv + argc});
  } catch (const weft::Error& error) {
    std::cerr << error.what() + std::string("\n");
    return weft::exit_code(error.kind());
  }
}
