// One process of a job for the trials of tests/*.py, which set its environment, start it, and harm it from outside.
//
//   peer connect [--version V] [--wire N]   connects as a build that calls itself so; says "connected" and ends
//   peer hold                               comes to the rendezvous, says "listens", and connects at a line of standard
//                                           input; says "connected", and ends with its input
//   peer job SECONDS                        connects, says "connected", and sums for so long; says "done"
// Ends with an error's status after "refused: MESSAGE"; 1 for a wrong sum.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "collectives/bootstrap/agreement.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// Sums of what every rank knows, and messages to a neighbour, in turn.
int work(Communicator& comm, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Stream stream;
  Buffer buffer = comm.allocate(DataType::f32, 1 << 16);
  const View all = buffer.view();
  const auto first = static_cast<float*>(all.data());
  Buffer vote = comm.allocate(DataType::i32, 1);
  auto* over = static_cast<std::int32_t*>(vote.view().data());
  const int ranks = comm.size();
  for (int step = 0;; ++step) {
    for (std::int64_t i = 0; i < all.count(); ++i) first[i] = static_cast<float>(comm.rank() + step % 7);
    comm.all_reduce(all, ReduceOp::sum, stream).wait();
    const float right = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * (step % 7));
    for (std::int64_t i = 0; i < all.count(); ++i) {
      if (first[i] != right) {
        say(text("rank ", comm.rank(), ": element ", i, " is ", first[i], ", not ", right));
        return 1;
      }
    }
    *over = Clock::now() >= end ? 1 : 0;  // the ranks end after the same operation
    comm.all_reduce(vote.view(), ReduceOp::max, stream).wait();
    if (*over != 0) return 0;
  }
}

int run(const std::vector<std::string>& words) {
  const std::string mode = words.empty() ? "" : words[0];
  for (std::size_t i = 1; mode == "connect" && i + 1 < words.size(); i += 2) {
    if (words[i] == "--version") detail::Build::mine().version = words[i + 1];
    if (words[i] == "--wire") detail::Build::mine().wire_format = std::stoi(words[i + 1]);
  }
  const World world = World::from_environment();
  if (mode == "hold") {
    say("listens");
    std::string line;
    std::getline(std::cin, line);
  }
  Communicator comm = connect(world);
  if (mode == "job") {
    say(text("connected ", comm.rank()));
    const int status = work(comm, std::stod(words.at(1)));
    if (status == 0) say(text("rank ", comm.rank(), " done"));
    return status;
  }
  say(text("rank ", comm.rank(), " connected"));
  const int status = work(comm, 0);
  for (std::string line; mode == "hold" && std::getline(std::cin, line);) {
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || (words[0] != "connect" && words[0] != "hold" && words[0] != "job")) {
    std::fputs("usage: peer connect|hold|job ...\n", stderr);
    return 42;
  }
  try {
    return run(words);
  } catch (const Error& error) {
    say(text("refused: ", error.what()));
    return exit_code(error.kind());
  }
}
