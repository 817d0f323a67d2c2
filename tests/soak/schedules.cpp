// Mutates small random schedules: the verifier must reject each mutant that the exhaustive oracle calls
// invalid, and none that it calls valid.
//
//   soak_schedules SEED COUNT    ends with 0 when they agree on all; prints each that they do not agree on

#include <cstdio>
#include <cstdlib>

#include "unit/pipeline/verify/mutants.hpp"
#include "unit/pipeline/verify/oracle.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: soak_schedules SEED COUNT\n");
    return 42;
  }
  const std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  weft::test::Tally tally;
  for (std::uint64_t i = 0; i < count; ++i) weft::test::try_mutant(seed + i, tally);
  std::fputs(tally.differences.c_str(), stdout);
  std::printf(
      "%ld mutants: %ld invalid by the oracle (%ld by deadlock alone), %ld of them rejected; %ld valid, %ld "
      "of them rejected\n",
      tally.mutants, tally.invalid, tally.deadlocks, tally.rejected, tally.valid, tally.wrongly_rejected);
  std::printf("%ld states visited; %s\n", weft::test::states_visited(),
              tally.agrees() ? "verifier and oracle agree" : "FAILED");
  return tally.agrees() ? 0 : 1;
}
