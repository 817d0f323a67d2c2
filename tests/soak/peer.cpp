// One process of a job for the trials of tests/*.py, which set its environment, start it, and harm it from outside.
//
//   peer connect [--version V] [--wire N]   connects as a build that calls itself so; says "connected" and ends
//   peer hold                               comes to the rendezvous, says "listens", and connects at a line of standard
//                                           input; says "connected", and ends with its input
//   peer job SECONDS                        connects, says "connected", and carries out every collective for so long; says "done"
// Ends with an error's status after "refused: MESSAGE"; 1 for a wrong sum.

#include <algorithm>
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

/// Every collective in turn, short and long, with what every rank knows.
class Work {
 public:
  explicit Work(Communicator& comm)
      : comm_(comm), ranks_(comm.size()), in_(buffer(longest * ranks_)), out_(buffer(longest * ranks_)) {}

  /// Whether the collective of the step gave what is right.
  bool step(int step) {
    const std::int64_t part = step % 2 == 0 ? 16 : longest;
    const View all_in = in_.view().slice(0, part * ranks_);
    const View all_out = out_.view().slice(0, part * ranks_);
    const View one_in = in_.view().slice(0, part);
    const View one_out = out_.view().slice(0, part);
    const int root = step % ranks_;
    const auto mine = static_cast<float>(comm_.rank() + step % 7);
    const auto sum = static_cast<float>(ranks_ * (ranks_ - 1) / 2 + ranks_ * (step % 7));
    std::ranges::fill(in_.as<float>(), mine);
    switch (step / 2 % 7) {
      case 0:
        comm_.all_reduce(all_in, all_out, ReduceOp::sum, stream_).wait();
        return holds(all_out, [&](std::int64_t) { return sum; });
      case 1:
        comm_.reduce_scatter(all_in, one_out, ReduceOp::sum, stream_).wait();
        return holds(one_out, [&](std::int64_t) { return sum; });
      case 2:
        comm_.all_gather(one_in, all_out, stream_).wait();
        return holds(all_out, [&](std::int64_t i) { return static_cast<float>(i / part + step % 7); });
      case 3:
        comm_.broadcast(all_in, root, stream_).wait();
        return holds(all_in, [&](std::int64_t) { return static_cast<float>(root + step % 7); });
      case 4:
        comm_.reduce(all_in, all_out, ReduceOp::sum, root, stream_).wait();
        return comm_.rank() != root || holds(all_out, [&](std::int64_t) { return sum; });
      case 5:
        comm_.all_to_all(all_in, all_out, stream_).wait();
        return holds(all_out, [&](std::int64_t i) { return static_cast<float>(i / part + step % 7); });
      default:
        comm_.barrier(stream_).wait();
        return true;
    }
  }

 private:
  static constexpr std::int64_t longest = 1 << 14;

  Buffer buffer(std::int64_t count) { return comm_.allocate(DataType::f32, count); }
  template <class Value>
  static bool holds(const View& view, Value value) {
    const auto elements = view.as<float>();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (elements[i] != value(static_cast<std::int64_t>(i))) return false;
    }
    return true;
  }

  Communicator& comm_;
  int ranks_;
  Stream stream_;
  Buffer in_;
  Buffer out_;
};

int work(Communicator& comm, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  Work work(comm);
  Stream stream;
  Buffer vote = comm.allocate(DataType::i32, 1);
  auto* over = static_cast<std::int32_t*>(vote.view().data());
  for (int step = 0;; ++step) {
    if (!work.step(step)) {
      say(text("rank ", comm.rank(), ": step ", step, " gave what is wrong"));
      return 1;
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
