// The lines of launchers, as their sources print them; logs of public issues for each.
#include <gtest/gtest.h>

#include <algorithm>

#include "weft-report/nccl/nccl.hpp"

namespace weft::report::nccl {
namespace {

/// The verdict on a rank that ended; empty: none.
std::string verdict_on(const std::string& log) {
  JobLog all;
  EXPECT_EQ(all.add(log, "log"), "");
  for (const Finding& one : examine(all.job())) {
    if (one.cause == "rank-ended") return std::string(name(one.severity)) + ": " + one.verdict;
  }
  return {};
}

TEST(Launchers, NameTheRankThatWasKilledOrCrashed) {
  EXPECT_EQ(
      verdict_on("weft-launch: rank 2 (pid 714) was killed by signal 9\nweft-launch: ending ranks 0, 1\n"),
      "critical: rank 2 (pid 714) was killed by signal 9 (SIGKILL), as weft-launch says");
  EXPECT_EQ(verdict_on("weft-launch: rank 11 (pid 714 on node2) was killed by signal 11: its last words\n"),
            "critical: rank 11 (pid 714 on node2) was killed by signal 11 (SIGSEGV), as weft-launch says");
  EXPECT_EQ(
      verdict_on("E0724 20:47:36.140000 1237 torch/distributed/elastic/multiprocessing/api.py:986] failed "
                 "(exitcode: -9) local_rank: 2 (pid: 1734) of binary: /usr/bin/python3\n"),
      "critical: local rank 2 (pid 1734) was killed by signal 9 (SIGKILL), as torchrun says");
  EXPECT_EQ(
      verdict_on("mpirun noticed that process rank 3 with PID 1167 on node 10.10.21.2 exited on signal 11 "
                 "(Segmentation fault).\n"),
      "critical: rank 3 (pid 1167 on 10.10.21.2) was killed by signal 11 (SIGSEGV), as mpirun says");
  EXPECT_EQ(
      verdict_on("prterun noticed that process rank 48 with PID 613162 on node gpu-node07 exited on signal 7 "
                 "(Bus error).\r\n"),
      "critical: rank 48 (pid 613162 on gpu-node07) was killed by signal 7 (SIGBUS), as mpirun says");
  EXPECT_EQ(verdict_on("srun: error: node1: task 2: Killed\n"),
            "critical: task 2 on node1 was killed by signal 9 (SIGKILL), as srun says");
  EXPECT_EQ(verdict_on("srun: error: node[1-2]: tasks 0,3-5: Segmentation fault (core dumped)\n"),
            "critical: tasks 0,3-5 on node[1-2] were killed by signal 11 (SIGSEGV), as srun says");
  EXPECT_EQ(verdict_on("=   RANK 1 PID 65033 RUNNING AT node7\n=   KILLED BY SIGNAL: 9 (Killed)\n"),
            "critical: rank 1 (pid 65033 on node7) was killed by signal 9 (SIGKILL), as mpiexec says");
  EXPECT_EQ(
      verdict_on("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 9665 RUNNING AT node7\n"
                 "=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n"
                 "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n"),
      "critical: the process of a rank (pid 9665 on node7) was killed by signal 9 (SIGKILL), as mpiexec "
      "says");
}

TEST(Launchers, NameTheHostThatIsLost) {
  EXPECT_EQ(
      verdict_on("weft-launch: host node2 with ranks 2, 3 is lost: its agent was killed by signal 9\n"),
      "critical: ranks 2, 3 of host node2 were lost: its agent was killed by signal 9, as weft-launch says");
  EXPECT_EQ(verdict_on("weft-launch: host node2 with rank 2 is lost: it has not answered within 10 s\n"),
            "critical: rank 2 of host node2 was lost: it has not answered within 10 s, as weft-launch says");
}

TEST(Launchers, NameTheFirstOfThose) {
  EXPECT_EQ(verdict_on(
                "weft-launch: rank 0 (pid 7) ended with status 75\nweft-launch: rank 2 (pid 9) was killed by "
                "signal 9\nweft-launch: rank 1 (pid 8) was killed by signal 6\n"),
            "critical: rank 2 (pid 9) was killed by signal 9 (SIGKILL), as weft-launch says");
  EXPECT_EQ(verdict_on("srun: error: n1: task 0: Exited with exit code 1\nsrun: error: n2: task 1: Killed\n"),
            "warning: task 0 on n1 ended with status 1, as srun says");
}

TEST(Launchers, SpeakOfAStatusOnlyWhereNothingElseDoes) {
  const std::string ended = "weft-launch: rank 1 (pid 7) ended with status 1\n";
  EXPECT_EQ(verdict_on(ended), "warning: rank 1 (pid 7) ended with status 1, as weft-launch says");
  EXPECT_EQ(verdict_on("RuntimeError: no data\n" + ended), "");
  EXPECT_EQ(verdict_on("kernel: oom-kill:constraint=CONSTRAINT_MEMCG,task=python\n" + ended), "");
  const std::string by_mpirun =
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n";
  EXPECT_EQ(verdict_on(by_mpirun + "  Process name: [[35302,1],3]\n  Exit code:    17\n"),
            "warning: rank 3 ended with status 17, as mpirun says");
  EXPECT_EQ(verdict_on(by_mpirun + "  Process name: [prterun-gpu-node07-613@1,48]\r\n  Exit code:    1\r\n"),
            "warning: rank 48 ended with status 1, as mpirun says");
  EXPECT_EQ(verdict_on(by_mpirun + "  Process name: [[...],0]\n  Exit code:    75\n"), "");
  EXPECT_EQ(verdict_on("  Process name: [explorer, exe]\n  Exit code:    3\n"), "");
  EXPECT_EQ(verdict_on("=   PID 28 RUNNING AT n1\n=   EXIT CODE: 1\n"),
            "warning: the process of a rank (pid 28 on n1) ended with status 1, as mpiexec says");
}

TEST(Launchers, AreSymptomsBesideACause) {
  EXPECT_EQ(verdict_on("kernel: oom-kill:constraint=CONSTRAINT_MEMCG,task=python\n"
                       "weft-launch: rank 1 (pid 7) was killed by signal 9\n"),
            "warning: rank 1 (pid 7) was killed by signal 9 (SIGKILL), as weft-launch says");
}

TEST(Launchers, SayNothingOfEndsThatWereAskedFor) {
  for (const char* const line :
       {"weft-launch: rank 1 (pid 7) ended with status 75\n",
        "weft-launch: rank 1 (pid 7) was killed by signal 15\n",
        "weft-launch: rank 1 (pid 7) ended with status 143\n", "srun: error: n1: task 1: Terminated\n",
        "srun: error: n1: tasks 0-7: Exited with exit code 0\n",
        "E0724 torch/elastic/api.py:986] failed (exitcode: -15) local_rank: 2 (pid: 1) of binary: python\n",
        "mpirun noticed that process rank 3 with PID 1 on node n exited on signal 15 (Terminated).\n",
        "=   RANK 1 PID 6 RUNNING AT n\n=   KILLED BY SIGNAL: 15 (Terminated)\n",
        "=   PID 28 RUNNING AT n1\n=   EXIT CODE: 15\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: "
        "Terminated "
        "(signal 15)\n"})
    EXPECT_EQ(verdict_on(line), "") << line;
}

TEST(Launchers, SurviveLinesThatAreCut) {
  const std::string whole =
      "weft-launch: rank 2 (pid 714 on node2) was killed by signal 9|weft-launch: host n with ranks 2, 3 is "
      "lost: why|"
      "api.py] failed (exitcode: -9) local_rank: 2 (pid: 1734) of binary: p|"
      "mpirun noticed that process rank 3 with PID 1 on node n exited on signal 11 (S).|srun: error: n: task "
      "2: Killed|"
      "  Process name: [[35302,1],3]|  Exit code:    17|"
      "=   RANK 1 PID 6 RUNNING AT n|=   KILLED BY SIGNAL: 9 (Killed)|=   EXIT CODE: 9|WITH THE EXIT STRING: "
      "K (signal 9)";
  for (std::size_t end = 0; end <= whole.size(); ++end) {
    std::string log = whole.substr(0, end);
    std::ranges::replace(log, '|', '\n');
    JobLog all;
    EXPECT_EQ(all.add(log + "\n", "log"), "");
    (void)examine(all.job());
  }
}

}  // namespace
}  // namespace weft::report::nccl
