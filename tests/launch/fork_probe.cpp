// Ranks that fork while they communicate. The child tries all that a communicator can do, hears each time whose it is, meets the other ranks'
// children in a communicator of their own, and ends; the parents go on, and their sums are right.
//
//   fork_probe FOLDER returns|exits|throws [queued]     how the child ends: with all destructors, with those of statics, by an exception;
//                                                       queued: a thread of the parent's has work under way meanwhile

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/collectives/communicator.hpp"

namespace {

using weft::Communicator;
using weft::ReduceOp;
using weft::Stream;
using weft::View;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << weft::text("process ", getpid(), ": not so: ", what, "\n");
  _exit(1);
}

void refused(const std::string& what, const std::function<void()>& call) {
  try {
    call();
  } catch (const weft::Error& error) {
    const std::string line = error.what();
    expect(line.find("which forked it") != std::string::npos ||
               line.find("the process that forked this one") != std::string::npos,
           what + " is refused: " + line);
    return;
  }
  expect(false, what + " is refused");
}

void sum(Communicator& comm, const Stream& stream) {
  std::vector<float> ones(5000, 1.0F);
  comm.all_reduce(View(std::span(ones)), ReduceOp::sum, stream).wait();
  expect(ones == std::vector<float>(ones.size(), static_cast<float>(comm.size())), "a sum of ones");
}

/// A message to the next rank, and one from the rank before.
weft::Work exchange(Communicator& comm, std::vector<int>& out, std::vector<int>& in, const Stream& stream) {
  const int size = comm.size();
  return weft::Group(comm)
      .send(View(std::span(out)), (comm.rank() + 1) % size)
      .receive(View(std::span(in)), (comm.rank() + size - 1) % size)
      .start(stream);
}

void try_all(Communicator& comm, const Stream& stream) {
  std::vector<float> some(10 * static_cast<std::size_t>(comm.size()), 100.0F);
  std::vector<float> more = some;
  std::vector<int> number(1, 1);
  const View all(std::span<float>{some});
  const View others(std::span<float>{more});
  const View part = others.slice(0, 10);
  refused("all_reduce", [&] { comm.all_reduce(all, ReduceOp::sum, stream); });
  refused("reduce_scatter", [&] { comm.reduce_scatter(all, part, ReduceOp::sum, stream); });
  refused("all_gather", [&] { comm.all_gather(part, all, stream); });
  refused("broadcast", [&] { comm.broadcast(all, 0, stream); });
  refused("reduce", [&] { comm.reduce(all, others, ReduceOp::sum, 0, stream); });
  refused("all_to_all", [&] { comm.all_to_all(all, others, stream); });
  refused("barrier", [&] { comm.barrier(stream); });
  refused("split", [&] { comm.split(0); });
  refused("allocate", [&] { comm.allocate(weft::DataType::f32, 1000); });
  refused("a message", [&] { exchange(comm, number, number, stream); });
  comm.give_up(weft::Error(weft::ErrorKind::usage, "a child gives up"));
  weft::Communicator copy = comm;
}

struct Ends {};

/// The child's part. @returns as the child's main would
int child(const weft::World& world, Communicator& comm, const Stream& stream, const weft::Work& under_way,
          const std::string& folder, const std::string& how) {
  try_all(comm, Stream());
  try_all(comm, stream);
  if (!stream.is_inline() && comm.rank() != 0) refused("work under way", [&] { under_way.wait(); });
  refused("the rendezvous", [&] {
    if (world.size() > 1)
      world.rendezvous()->all_gather("", "child", weft::Deadline::in(std::chrono::seconds(5)));
  });
  {
    weft::WorldOptions options;
    options.rank = comm.rank();
    options.size = comm.size();
    options.rendezvous = "file://" + folder + "/children";
    weft::Environment environment = weft::Environment::of_process();
    const std::string transport = environment.value(weft::env::transport);
    if (transport == "mpi" || transport == "ucx")  // cannot begin twice
      environment = environment.with(weft::env::transport, "tcp");
    Communicator own = weft::connect(weft::World::from_environment(options, environment));
    sum(own, Stream());
    weft::Buffer memory = own.allocate(weft::DataType::f32, 100'000);
    own.all_reduce(memory.view(), ReduceOp::sum, Stream()).wait();
    own.barrier(Stream()).wait();
  }
  if (how == "exits") std::exit(0);
  if (how == "throws") throw Ends();
  return 0;
}

int play(const std::string& folder, const std::string& how, bool has_thread) {
  const weft::World world = weft::World::from_environment();
  Communicator comm = weft::connect(world);
  Communicator half = comm.split(0, -comm.rank()).value();
  const Stream stream = has_thread ? Stream::queued() : Stream();
  sum(comm, stream);
  sum(half, stream);
  weft::Buffer memory = comm.allocate(weft::DataType::f32, 3'000'000);
  for (float& value : memory.as<float>()) value = 1.0F;
  std::vector<int> out(1000, comm.rank());
  std::vector<int> in(1000, -1);
  // Rank 0 joins after its child has ended: for the others these are under way when they fork.
  weft::Work message;
  weft::Work barrier;
  const auto begin = [&] {
    message = exchange(comm, out, in, stream);
    barrier = half.barrier(stream);
  };
  if (comm.rank() != 0) begin();
  std::cout << std::flush;
  const pid_t forked = fork();
  if (forked == 0) {
    alarm(60);
    return child(world, comm, stream, barrier, folder, how);
  }
  int status = -1;
  waitpid(forked, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, weft::text("the child ends well: ", status));
  if (comm.rank() == 0) begin();
  message.wait();
  barrier.wait();
  expect(in == std::vector<int>(1000, (comm.rank() + comm.size() - 1) % comm.size()), "the message");
  comm.all_reduce(memory.view(), ReduceOp::sum, stream).wait();
  for (const float value : memory.as<float>()) expect(value == static_cast<float>(comm.size()), "the sum");
  for (int i = 0; i < 3; ++i) {
    sum(comm, stream);
    sum(half, stream);
  }
  std::cout << weft::text("rank ", comm.rank(), " went on over ", comm.backend(), "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return play(argv[1], argv[2], argc > 3);
  } catch (const Ends&) {
    return 0;
  } catch (const weft::Error& error) {
    std::cerr << weft::text("process ", getpid(), ": ", error.what(), "\n");
    return weft::exit_code(error.kind());
  }
}
