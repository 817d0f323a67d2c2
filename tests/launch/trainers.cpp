// Trainers as others write them, with their mistakes: each mode is one, for tests/launch/trainers_test.sh.
//   usage: trainers_probe MODE

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "weft/gradient/gradient_reducer.hpp"

using namespace weft;

namespace {

constexpr ParamId slope{0}, offset{1};
const ParamLayout small(DataType::f32, {{"slope", 1}, {"offset", 1}});

/// So many steps, in one of which rank 1 forgets a parameter.
void steps(Communicator comm, int count, int forgets_in = -1) {
  GradientReducer reducer(comm, small);
  Stream compute;
  for (int step = 0; step < count; ++step) {
    reducer.begin_step();
    reducer.mark_ready(offset, compute);
    if (comm.rank() != 1 || step != forgets_in) reducer.mark_ready(slope, compute);
    reducer.finish_step(compute);
    compute.synchronize();
  }
}

void rest(std::chrono::milliseconds duration) {
  std::this_thread::sleep_for(duration);
}

void forget(Communicator comm) {
  steps(std::move(comm), 1000, 5);
}

// The one that made the mistake ends last.
void forget_slow(Communicator comm) {
  try {
    steps(comm, 1000, 5);
  } catch (const Error&) {
    if (comm.rank() == 1) rest(std::chrono::milliseconds(300));
    throw;
  }
}

// The same, with its objects gone before it has said anything.
void throws_its_own(Communicator comm) {
  steps(comm, 3);
  if (comm.rank() == 1) throw std::runtime_error("no file");
  steps(comm, 3);
}

void exits_early(Communicator comm, int status) {
  auto* const kept = new Communicator(comm);  // as one of static storage
  steps(*kept, 3);
  if (comm.rank() == 1) {
    rest(std::chrono::milliseconds(100));
    std::exit(status);
  }
  steps(*kept, 3);
}

// A rank has no more batches, and goes on with other things.
void leaves(Communicator comm) {
  if (comm.rank() != 1) return steps(std::move(comm), 4);
  steps(std::move(comm), 3);
  comm = self();
  rest(std::chrono::seconds(60));
}

// All is well: one rank has more to do after the training than WEFT_TIMEOUT.
void evaluates(Communicator comm) {
  const int rank = comm.rank();
  steps(std::move(comm), 3);
  comm = self();
  if (rank == 0) rest(std::chrono::seconds(6));
  std::cout << "rank " << rank << " is done\n";
}

void connects_twice(Communicator first) {
  Communicator second = connect(World::from_environment());
  Communicator third = connect(World::from_environment());
  for (int step = 0; step < 3; ++step) {
    for (Communicator* one : {&third, &first, &second}) steps(*one, 2);
  }
  std::cout << "three communicators\n";
}

void connects_again(Communicator first) {
  steps(first, 2);
  first = self();
  steps(connect(World::from_environment()), 2);
  std::cout << "another communicator\n";
}

// One line is enough.
void is_late(Communicator comm) {
  comm.slow_after(std::chrono::seconds(2));  // a busy machine may hold up a rank for less
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 8; ++i) specs.push_back({"layer" + std::to_string(i), 1 << 12});
  GradientReducer reducer(comm, ParamLayout(DataType::f32, specs), {.buckets = BucketBytes{1 << 14}});
  Stream compute;
  for (int step = 0; step < 12; ++step) {
    if (step == 10 && comm.rank() == 0) rest(std::chrono::seconds(4));
    reducer.begin_step();
    for (int i = 7; i >= 0; --i) {
      rest(std::chrono::milliseconds(5));
      reducer.mark_ready(ParamId{i}, compute);
    }
    reducer.finish_step(compute);
    compute.synchronize();
  }
}

void two_threads(Communicator comm) {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 64; ++i) specs.push_back({"p" + std::to_string(i), 1 << 14});
  GradientReducer reducer(comm, ParamLayout(DataType::f32, specs), {.buckets = BucketBytes{1 << 16}});
  Stream compute;
  const auto half = [&](int first) {
    try {
      for (int i = first; i < 64; i += 2) reducer.mark_ready(ParamId{63 - i}, compute);
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
      std::_Exit(exit_code(error.kind()));
    }
  };
  for (int step = 0; step < 100'000; ++step) {  // they meet within a few
    reducer.begin_step();
    std::thread other([&] { half(1); });
    half(0);
    other.join();
    reducer.finish_step(compute);
    compute.synchronize();
  }
}

const std::map<std::string, std::function<void(Communicator)>> modes = {
    {"forget", forget},
    {"forget_slow", forget_slow},
    {"throws_its_own", throws_its_own},
    {"throws_in_run", [](Communicator comm) { comm.run([&] { throws_its_own(comm); }); }},
    {"exits_0", [](Communicator comm) { exits_early(std::move(comm), 0); }},
    {"exits_3", [](Communicator comm) { exits_early(std::move(comm), 3); }},
    {"exits_42", [](Communicator comm) { exits_early(std::move(comm), 42); }},
    {"leaves", leaves},
    {"evaluates", evaluates},
    {"connects_twice", connects_twice},
    {"connects_again", connects_again},
    {"is_late", is_late},
    {"two_threads", two_threads}};

}  // namespace

int main(int argc, char** argv) try {
  const auto mode = modes.find(argc > 1 ? argv[1] : "");
  if (mode == modes.end()) {
    std::cerr << "trainers_probe: name a mode\n";
    return 42;
  }
  mode->second(connect(World::from_environment()));
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return exit_code(error.kind());
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
