// Random runs as NCCL's Inspector writes them (unit/tools/weft-report/inspector/runs.hpp), healthy ones and ones with a straggler, of 8 to 128 ranks:
// no alarm in a healthy one; in the others the rank, with its sign, and no other.
//
//   soak_inspector SEED RUNS    ends with 0 when all RUNS were judged right; else names the first seeds that were not, and ends with 1

#include "weft-report/inspector/inspector.hpp"

#include <cstdio>
#include <cstdlib>

#include "support/draw.hpp"
#include "unit/tools/weft-report/inspector/runs.hpp"

int main(int argc, char** argv) {
  using namespace weft::report::inspector;
  if (argc != 3) {
    std::fprintf(stderr, "usage: soak_inspector SEED RUNS\n");
    return 42;
  }
  const auto first = std::strtoull(argv[1], nullptr, 10);
  const int runs = std::atoi(argv[2]);
  int healthy = 0;
  int alarms = 0;
  int missed = 0;
  for (int i = 0; i < runs; ++i) {
    test::MadeUp run{.seed = first * 1000003 + static_cast<std::uint64_t>(i)};
    weft::test::Draw draw(static_cast<unsigned>(run.seed));
    run.ranks = 8 << draw.below(5);
    run.steps = 100 + draw.below(100);
    if (i % 2 != 0) {
      run.straggler = draw.below(run.ranks);
      run.share = 0.03 + 0.01 * draw.below(10);
      run.waits = draw.below(2) == 0;
      run.begins = draw.below(2) * 0.01 * draw.below(60);
    }
    const Job job = job_of(test::records_of(run));
    const Conclusions all = conclude(job, {});
    bool right = all.findings.size() == (run.straggler < 0 ? 0U : 1U);
    if (right && run.straggler >= 0)
      right = all.findings[0].finding.cause == "straggler" &&
              all.findings[0].ranks == std::vector<std::int64_t>{run.straggler} &&
              all.comparisons[0].stragglers[0].last() == run.waits;
    healthy += run.straggler < 0 ? 1 : 0;
    if (right) continue;
    ++(run.straggler < 0 ? alarms : missed);
    std::printf("run %d (seed %llu, %d ranks, straggler %d by %.2f from %.2f): %zu findings%s%s\n", i,
                static_cast<unsigned long long>(run.seed), run.ranks, run.straggler, run.share, run.begins,
                all.findings.size(), all.findings.empty() ? "" : ", ",
                all.findings.empty() ? "" : all.findings[0].finding.verdict.c_str());
  }
  std::printf(
      "inspector: %d runs, %d of them healthy with %d alarms, %d with a straggler of which %d were judged "
      "wrong\n",
      runs, healthy, alarms, runs - healthy, missed);
  return alarms + missed == 0 ? 0 : 1;
}
