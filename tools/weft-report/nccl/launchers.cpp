#include "weft-report/nccl/launchers.hpp"

#include <csignal>
#include <utility>

#include "common/findings/words.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::size_t most_ends = 64;
constexpr std::size_t longest_word_of_end = 128;

std::string_view until(std::string_view words, std::string_view end) {
  return words.substr(0, std::min(words.find(end), longest_word_of_end));
}
int integer_in(std::string_view words) {
  return static_cast<int>(number_in(words, 0));
}

/// "rank 2 (pid 7 on node1)"
std::string who(std::string_view what, std::string_view number, std::string_view pid, std::string_view host) {
  return text(what, ' ', number, " (pid ", pid, host.empty() ? "" : " on ", host, ')');
}

bool keep_end(Job& job, RankEnd end, const Said& said) {
  if (job.ends.size() >= most_ends) return true;
  end.evidence = said.evidence();
  job.ends.push_back(std::move(end));
  return true;
}

}  // namespace

/// "weft-launch: rank 2 (pid 7) was killed by signal 9", "weft-launch: rank 2 (pid 7 on node1) ended with status 1"
bool take_end_by_weft_launch(const Said& said, Process&, Job& job) {
  const std::string_view rest = after(said.text, "weft-launch: rank ");
  const std::string_view process = until(after(rest, " (pid "), ")");
  if (process.empty()) return false;
  const std::string_view what = after(rest, ") ");
  return keep_end(job,
                  {.who = who("rank", until(rest, " "), until(process, " "), after(process, " on ")),
                   .launcher = "weft-launch",
                   .signal = integer_in(after(what, "was killed by signal ")),
                   .status = integer_in(after(what, "ended with status "))},
                  said);
}

/// "weft-launch: host node1 with ranks 2, 3 is lost: its agent was killed by signal 9"
bool take_lost_host(const Said& said, Process&, Job& job) {
  const std::string_view rest = after(said.text, "weft-launch: host ");
  const std::string_view ranks = until(after(rest, " with "), " is lost: ");
  if (!ranks.starts_with("rank")) return false;
  return keep_end(job,
                  {.who = text(ranks, " of host ", until(rest, " ")),
                   .launcher = "weft-launch",
                   .lost = std::string(until(after(rest, " is lost: "), "\r"))},
                  said);
}

/// "... api.py:869] failed (exitcode: -9) local_rank: 0 (pid: 2762) of binary: /usr/bin/python3": torch/distributed/elastic/multiprocessing/api.py,
/// where a code below 0 is a signal.
bool take_end_by_torchrun(const Said& said, Process&, Job& job) {
  const std::string_view rest = after(said.text, "failed (exitcode: ");
  const std::string_view rank = until(after(rest, "local_rank: "), " ");
  if (rank.empty()) return false;
  const int code = integer_in(rest);
  return keep_end(job,
                  {.who = who("local rank", rank, until(after(rest, "(pid: "), ")"), ""),
                   .launcher = "torchrun",
                   .signal = code < 0 ? -code : 0,
                   .status = code < 0 ? 0 : code},
                  said);
}

/// "mpirun noticed that process rank 2 with PID 7 on node node1 exited on signal 9 (Killed).": help-prun.txt of PRRTE, help-orterun.txt of Open MPI 4
bool take_end_by_open_mpi(const Said& said, Process&, Job& job) {
  const std::string_view rest = after(said.text, " noticed that process rank ");
  const std::string_view pid = until(after(rest, " with PID "), " ");
  if (pid.empty()) return false;
  return keep_end(job,
                  {.who = who("rank", until(rest, " "), pid, until(after(rest, " on node "), " ")),
                   .launcher = "mpirun",
                   .signal = integer_in(after(rest, " exited on signal "))},
                  said);
}

/// "  Process name: [[35302,1],0]", and PRRTE's "  Process name: [prterun-node1-7@1,0]", below "mpirun detected that one or more processes exited
/// with non-zero status": the same help files. The rank stands behind the last comma.
bool take_name_by_open_mpi(const Said& said, Process&, Job& job) {
  const std::string_view name = until(after(said.text, "  Process name: ["), "\r");
  const std::string_view behind = name.substr(std::min(name.rfind(','), name.size()));
  const std::string_view rank = until(after(behind, ","), "]");
  if (rank.empty() || rank.find_first_not_of("0123456789") != std::string_view::npos) return false;
  return keep_end(job, {.who = text("rank ", rank), .launcher = "mpirun"}, said);
}

/// "  Exit code:    1", of the rank above
bool take_code_by_open_mpi(const Said& said, Process&, Job& job) {
  if (job.ends.empty() || job.ends.back().launcher != "mpirun") return false;
  RankEnd& end = job.ends.back();
  if (end.signal != 0 || end.status != 0) return false;
  end.status = integer_in(trimmed(after(said.text, "  Exit code: ")));
  return true;
}

/// "srun: error: node1: task 2: Killed", "srun: error: node[1-2]: tasks 0,3-5: Exited with exit code 1"
bool take_end_by_srun(const Said& said, Process&, Job& job) {
  constexpr std::pair<std::string_view, int> signals[] = {{"Killed", SIGKILL},
                                                          {"Out Of Memory", SIGKILL},
                                                          {"Segmentation fault", SIGSEGV},
                                                          {"Bus error", SIGBUS},
                                                          {"Floating point exception", SIGFPE},
                                                          {"Illegal instruction", SIGILL},
                                                          {"Aborted", SIGABRT},
                                                          {"Terminated", SIGTERM}};
  const std::string_view rest = after(said.text, "srun: error: ");
  const std::string_view tasks = until(after(rest, ": task"), ": ");
  if (tasks.empty()) return false;
  const std::string_view what = trimmed(after(after(rest, ": task"), ": "));
  RankEnd end{.who = text("task", tasks, " on ", until(rest, ": ")),
              .launcher = "srun",
              .status = integer_in(after(what, "Exited with exit code "))};
  for (const auto& [words, signal] : signals) {
    if (what.starts_with(words)) end.signal = signal;
  }
  return keep_end(job, std::move(end), said);
}

/// "=   RANK 2 PID 7 RUNNING AT node1"; MPICH's own does not name the rank.
bool take_place_by_hydra(const Said& said, Process&, Job& job) {
  const std::string_view rest = after(said.text, "=   ");
  if (!rest.starts_with("RANK ") && !rest.starts_with("PID ")) return false;
  const std::string_view rank = until(after(rest, "RANK "), " ");
  const std::string_view pid = until(after(rest, "PID "), " ");
  const std::string_view host = trimmed(until(after(rest, " RUNNING AT "), "\r"));
  return keep_end(
      job,
      {.who = rank.empty() ? who("the process", "of a rank", pid, host) : who("rank", rank, pid, host),
       .launcher = "mpiexec"},
      said);
}

/// "=   KILLED BY SIGNAL: 9 (Killed)", "=   EXIT CODE: 9", of the rank above. MPICH gives a signal as the code, and says so below it: "YOUR APPLICATION
/// TERMINATED WITH THE EXIT STRING: Killed (signal 9)".
bool take_end_by_hydra(const Said& said, Process&, Job& job) {
  if (job.ends.empty() || job.ends.back().launcher != "mpiexec") return false;
  RankEnd& end = job.ends.back();
  const int named = integer_in(after(said.text, "(signal "));
  if (named != 0 && named == end.status) {
    end.signal = std::exchange(end.status, 0);
  } else if (end.signal == 0 && end.status == 0) {
    end.signal = integer_in(after(said.text, "KILLED BY SIGNAL: "));
    end.status = integer_in(after(said.text, "EXIT CODE: "));
  }
  return true;
}

}  // namespace weft::report::nccl
