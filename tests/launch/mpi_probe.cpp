// A rank that meets through MPI: the user's own, or the one that weft initialises. Ends with 1 and a line
// when something is not as it should be.
//
//   mpi_probe own       the program initialises MPI; weft joins it twice over and leaves it alone
//   mpi_probe single    the same with MPI_THREAD_SINGLE: weft refuses other threads
//   mpi_probe weft      weft initialises MPI and finalizes it when the process ends
//   mpi_probe handler   the same with a handler of SIGPIPE, which stays
//   mpi_probe mismatch  ranks that split differently
//   mpi_probe stops     rank 1 stops as it enters MPI_Comm_split; the others wait no longer than WEFT_TIMEOUT

#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "weft/core/error.hpp"
#include "weft/interop/mpi.hpp"

namespace {

using namespace std::chrono_literals;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << "not so: " + what + "\n";
  std::exit(1);
}

template <class Call>
void expect_error(const std::string& part, Call call) {
  try {
    call();
  } catch (const weft::Error& error) {
    return expect(std::string(error.what()).find(part) != std::string::npos, part + " in: " + error.what());
  }
  expect(false, "an error that says " + part);
}

void gather(weft::Rendezvous& rendezvous, std::size_t bytes) {
  const auto note = [&](int rank) { return std::string(bytes, static_cast<char>('a' + rank)); };
  const auto notes = rendezvous.all_gather(note(rendezvous.rank()), "probe", weft::Deadline::in(20s));
  expect(static_cast<int>(notes.size()) == rendezvous.size(), "a note of every rank");
  for (int rank = 0; rank < rendezvous.size(); ++rank) {
    expect(notes[static_cast<std::size_t>(rank)] == note(rank), "the note of rank " + std::to_string(rank));
  }
}

bool finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

void own(int wanted) {
  expect_error("MPI is not initialised", [] { weft::world_from_mpi(MPI_COMM_WORLD); });
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, wanted, &provided);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  {
    MPI_Comm reversed = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
    const weft::World first = weft::world_from_mpi(reversed);
    MPI_Comm_free(&reversed);  // weft has its own
    expect(first.rank() == size - 1 - rank && first.size() == size, "the ranks of the communicator");
    const weft::World second = weft::World::from_environment();
    expect(second.launcher() == weft::Launcher::mpi && second.rank() == rank, "MPI is believed");
    gather(*first.rendezvous(), 10);
    gather(*second.rendezvous(), 1 << 20);  // too long for MPI to send before it is received
    gather(*first.rendezvous()->split({size - 1 - rank}), 3);
    if (wanted == MPI_THREAD_SINGLE) {
      std::thread([&] {
        expect_error("another thread than the main one", [&] { gather(*first.rendezvous(), 1); });
      }).join();
    }
    weft::WorldOptions elsewhere;
    elsewhere.rank = rank;
    elsewhere.size = size + 1;
    expect_error("says rank", [&] { weft::World::from_environment(elsewhere); });
  }
  expect(!finalized(), "weft leaves the user's MPI alone");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

/// What this process does on SIGPIPE.
auto on_broken_pipe() {
  struct sigaction now {};
  sigaction(SIGPIPE, nullptr, &now);
  return now.sa_handler;
}

void by_weft(decltype(SIG_DFL) before, decltype(SIG_DFL) then) {
  std::signal(SIGPIPE, before);
  {
    const weft::World world = weft::World::from_environment();
    expect(on_broken_pipe() == then, "a dead peer's connection ends no process that has no handler for it");
    const weft::World copy = world;
    gather(*copy.rendezvous(), 5);
    const auto group = world.rendezvous()->split({world.rank()});
    gather(*group, 5);
    expect(!finalized(), "MPI lives as long as its World");
  }
  expect(!finalized(), "MPI goes on after the last World, for another");
  const weft::World another = weft::World::from_environment();
  gather(*another.rendezvous(), 5);
}

void handle(int) {}

void mismatch() {
  const weft::World world = weft::World::from_environment();
  expect_error("split: rank", [&] {
    world.rendezvous()->split(world.rank() == 0 ? std::vector{0, 1} : std::vector{1, 0});
  });
}

bool rank_1_stops = false;

/// All ranks have agreed on the groups by then.
void stops() {
  rank_1_stops = true;
  const weft::World world = weft::World::from_environment();
  world.rendezvous()->split({0, 1});
}

}  // namespace

/// MPI's profiling interface (MPI 4.0, section 15.2): the program's own MPI_Comm_split comes before the library's.
extern "C" int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* child) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (rank_1_stops && rank == 1) std::this_thread::sleep_for(20s);
  return PMPI_Comm_split(comm, color, key, child);
}

/// Who finalizes MPI says so: weft does when main() has returned.
extern "C" int MPI_Finalize() {
  std::fputs("MPI is finalized\n", stdout);
  std::fflush(stdout);
  return PMPI_Finalize();
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "own") own(MPI_THREAD_SERIALIZED);
    if (mode == "single") own(MPI_THREAD_SINGLE);
    if (mode == "weft") by_weft(SIG_DFL, SIG_IGN);
    if (mode == "handler") by_weft(handle, handle);
    if (mode == "mismatch") mismatch();
    if (mode == "stops") stops();
  } catch (const weft::Error& error) {
    std::cerr << error.what() + std::string("\n");
    return weft::exit_code(error.kind());
  }
  std::cout << mode + " holds\n";
}
