// A rank for the launch tests: makes a World from its environment, gathers, prints what it learned, and fails
// as told.
//
//   probe                     gathers twice, splits into even and odd ranks, gathers there
//   probe exit RANK STATUS    RANK leaves with STATUS, the others gather with it and sleep
//   probe kill RANK           the same by SIGKILL
//   probe absent RANK         RANK sleeps and never gathers
//   probe signal              every rank sleeps until SIGUSR1, prints it and ends
//   probe deaf                every rank ignores SIGTERM and sleeps; rank 0 fails

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

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

int play(const std::vector<std::string>& words) {
  const std::string mode = words.empty() ? "gather" : words[0];
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
