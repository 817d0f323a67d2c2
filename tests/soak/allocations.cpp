// Trainings of every kind for many steps, on two ranks that are threads: how often they took memory from the
// heap after their second step. Never, or the trial fails and prints who did. Each training is a process of
// its own, which finds nothing that the one before left.
//
//   soak_allocations STEPS [PART]    those whose name has PART in it; default: all

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "support/heap_watch.hpp"
#include "support/steady_trainings.hpp"

namespace {

using namespace weft::test;

int trial(const SteadyTraining& training, RankKind kind, int steps) {
  std::uint64_t taken = 0;
  try {
    taken = allocations_of(training, kind, steps);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s over %s: %s\n", training.name.c_str(), name(kind), error.what());
    return 1;
  }
  if (taken == 0) return 0;
  std::printf("FAILED: %s over %s took memory %llu times in %d steps:\n%s", training.name.c_str(), name(kind),
              static_cast<unsigned long long>(taken), steps, heap_watch::report().c_str());
  return 1;
}

bool passes(const SteadyTraining& training, RankKind kind, int steps) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int status = trial(training, kind, steps);
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || std::atoi(argv[1]) < 10) {
    std::fprintf(stderr, "usage: soak_allocations STEPS [PART], of 10 steps or more\n");
    return 42;
  }
  const int steps = std::atoi(argv[1]);
  const std::string part = argc > 2 ? argv[2] : "";
  int trainings = 0;
  int failed = 0;
  for (const SteadyTraining& training : steady_trainings()) {
    if (training.name.find(part) == std::string::npos) continue;
    for (const RankKind kind : {RankKind::threads, RankKind::host}) {
      ++trainings;
      if (!passes(training, kind, steps)) ++failed;
    }
  }
  std::printf("%d trainings of %d steps, %d took memory from the heap after they were warm\n", trainings,
              steps, failed);
  return failed > 0 || trainings == 0 ? 1 : 0;
}
