#include "weft-report/ras/judge.hpp"

#include <algorithm>
#include <set>

#include "weft-report/ras/counts.hpp"
#include "weft/core/text.hpp"

namespace weft::report::ras {
namespace {

/// The words of PyTorch when an operation took too long. People save them behind the answer.
constexpr std::string_view watchdog = "Watchdog caught collective operation timeout";

/// Whom PyTorch's watchdog or a time shows to wait.
constexpr const char* look_at_process =
    "see what it does: py-spy dump --pid PID, or gdb -p PID, on its node; a log of the rank says what it "
    "waited "
    "for";

std::vector<int> ranks_of(const Share& who) {
  std::vector<int> ranks;
  for (const Member& one : who.named) ranks.push_back(one.rank);
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<Process> processes_of(const Share& who) {
  std::vector<Process> all;
  for (const Member& one : who.named) {
    if (one.process.known()) all.push_back(one.process);
  }
  return all;
}

int unnamed_of(const Share& who) {
  return std::max(0, who.size - static_cast<int>(who.named.size()));
}

std::string names_of(const Share& who) {
  return ras::names_of(ranks_of(who), unnamed_of(who));
}

/// "process 4711 on node 10.0.0.1 (GPU 3)"
std::string named(const Process& one) {
  return text("process ", one.pid, one.node.empty() ? "" : " on node ", one.node,
              one.gpus.empty() ? "" : text(" (GPU ", one.gpus, ')'));
}

std::string listed(const std::vector<Process>& all) {
  constexpr std::size_t most = 4;
  std::string list;
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i)
    list += text(i == 0 ? "" : ", ", named(all[i]));
  if (all.size() > most) list += text(" and ", all.size() - most, " more");
  return list;
}

/// Behind "ranks 2, 3": " (process 4711 on node 10.0.0.1 (GPU 3))"
std::string where(const std::vector<Process>& all) {
  return all.empty() ? std::string() : text(" (", listed(all), ')');
}

const Communicator* same_in(const Answer* before, const Communicator& one) {
  if (before == nullptr) return nullptr;
  const auto found = std::ranges::find(before->communicators, one.hash, &Communicator::hash);
  return found == before->communicators.end() ? nullptr : &*found;
}

std::string seconds_of(double seconds) {
  return text(seconds < 10 ? seconds : static_cast<double>(static_cast<long long>(seconds + .5)), " s");
}

/// The parts of a communicator that answered, by rank.
std::vector<Process> processes_of(const Communicator& communicator, const std::vector<int>& ranks) {
  std::map<int, Process> known;
  const auto add = [&](const Share& who) {
    for (const Member& one : who.named) {
      if (one.process.known()) known.emplace(one.rank, one.process);
    }
  };
  for (const Standing& one : communicator.statuses) add(one.who);
  for (const Collective& one : communicator.collectives) {
    for (const Launched& level : one.levels) add(level.who);
  }
  std::vector<Process> all;
  for (const int rank : ranks) {
    if (const auto one = known.find(rank); one != known.end()) all.push_back(one->second);
  }
  return all;
}

class Judge {
 public:
  Judge(const Answer& answer, const Earlier& earlier) : now_(answer), earlier_(earlier) {}

  std::vector<RasFinding> all() {
    judge_processes(now_.dead, true);
    judge_processes(now_.silent, false);
    judge_timeouts();
    for (const Communicator& one : now_.communicators) judge(one);
    judge_groups();
    judge_progress();
    sort_by_importance(findings_);
    return std::move(findings_);
  }

 private:
  bool twice() const { return earlier_.before != nullptr; }

  Evidence line(int number, std::string words) const { return {now_.file, number, std::move(words)}; }

  void judge_processes(const Processes& processes, bool dead) {
    if (processes.size == 0 && processes.named.empty()) return;
    RasFinding one{
        .finding = {.cause = dead ? "process-dead" : "process-unresponsive", .confidence = dead ? .95 : .9},
        .processes = processes.named};
    const int size = std::max(processes.size, static_cast<int>(processes.named.size()));
    const std::string who =
        processes.named.empty()
            ? text(size, size == 1 ? " process" : " processes", " that the answer does not name")
            : text(listed(processes.named), size > static_cast<int>(processes.named.size())
                                                ? text(", of ", size, " such processes")
                                                : std::string());
    add_ranks(one);
    one.finding.verdict = text(who,
                               dead ? (size == 1 ? " is dead for RAS: nobody has reached it for a minute"
                                                 : " are dead for RAS: nobody has reached them for a minute")
                                    : (size == 1 ? " gives RAS no answer" : " give RAS no answer"),
                               one.ranks.empty() ? std::string()
                                                 : text("; ", size == 1 ? "it is " : "they are ",
                                                        ras::names_of(one.ranks), " of ", one.communicator));
    one.finding.evidence.push_back(line(
        processes.line,
        text(size, size == 1 ? " process " : " processes ", dead ? "considered dead" : "without an answer",
             ": ", processes.named.empty() ? "not named" : listed(processes.named))));
    one.finding.fix = dead ? "look at the end of its log, at dmesg (out of memory, Xid) and at its node; the "
                             "others wait for it: "
                             "end the job and start it again without that node"
                           : "see on its node whether it runs: ps -o pid,stat,wchan -p PID; T is stopped, Z "
                             "has ended, D waits "
                             "for a device. Ask again: a process that is gone for a minute is called dead";
    one.finding.not_when = "the job is just starting or ending";
    findings_.push_back(std::move(one));
  }

  /// The ranks that these processes are, in the largest communicator that misses them.
  void add_ranks(RasFinding& one) const {
    const Communicator* of = nullptr;
    for (const Communicator& communicator : now_.communicators) {
      std::vector<int> ranks;
      for (const Member& member : communicator.unanswered.named) {
        const auto same = [&](const Process& process) { return process.same_as(member.process); };
        if (std::ranges::any_of(one.processes, same)) ranks.push_back(member.rank);
      }
      if (ranks.empty() || (of != nullptr && communicator.size <= of->size)) continue;
      of = &communicator;
      one.ranks = std::move(ranks);
      one.communicator = communicator.name;
    }
  }

  void judge_timeouts() {
    if (now_.timeouts == 0 || now_.silent.size > 0 || now_.dead.size > 0) return;
    RasFinding one{
        .finding = {.cause = "process-unresponsive", .severity = Severity::notice, .confidence = .3}};
    one.finding.verdict = text("RAS met ", now_.timeouts, now_.timeouts == 1 ? " time-out" : " time-outs",
                               " while it asked the processes, and names none that is missing");
    one.finding.evidence.push_back(line(0, text(now_.timeouts, " communication time-outs")));
    one.finding.fix =
        "ask again; if they stay, see whether hosts are overloaded or their network loses packets";
    findings_.push_back(std::move(one));
  }

  void judge(const Communicator& one) {
    judge_failures(one);
    judge_unanswered(one);
    judge_statuses(one);
    judge_counts(one);
  }

  RasFinding about(const Communicator& communicator, const char* cause, Severity severity,
                   double confidence) const {
    return {.finding = {.cause = cause, .severity = severity, .confidence = confidence},
            .communicator = communicator.name};
  }

  void add_share(RasFinding& one, const Share& who) const {
    for (const int rank : ranks_of(who)) one.ranks.push_back(rank);
    for (Process& process : processes_of(who)) {
      if (std::ranges::none_of(one.processes, [&](const Process& known) { return known.same_as(process); }))
        one.processes.push_back(std::move(process));
    }
  }

  void judge_failures(const Communicator& communicator) {
    if (communicator.failures.empty()) return;
    const auto own = [](const Failure& one) { return one.what != remote_error; };
    const bool some_own = std::ranges::any_of(communicator.failures, own);
    RasFinding one = about(communicator, "communicator-error", Severity::critical, some_own ? .9 : .6);
    std::string who;
    for (const Failure& failure : communicator.failures) {
      const std::string kind = text(failure.at_init ? "at initialization: " : "", failure.what);
      one.finding.evidence.push_back(line(failure.who.line, text(names_of(failure.who), " reported ", kind)));
      if (some_own && !own(failure)) continue;
      add_share(one, failure.who);
      who += text(who.empty() ? "" : "; ", names_of(failure.who), " reported ", kind);
    }
    std::ranges::sort(one.ranks);
    one.ranks.erase(std::unique(one.ranks.begin(), one.ranks.end()), one.ranks.end());
    one.finding.verdict = text("communicator ", communicator.name, " failed: ", who, where(one.processes));
    one.finding.fix = some_own
                          ? "read the log of that rank from its first NCCL WARN on (weft-report nccl LOGS)"
                          : "these ranks only lost another one: see which process is missing, dead or "
                            "without an answer, and its log";
    findings_.push_back(std::move(one));
  }

  void judge_unanswered(const Communicator& communicator) {
    const Share& who = communicator.unanswered;
    const int size = std::max(who.size, static_cast<int>(who.named.size()));
    if (size == 0) return;
    // Where a process is named that gives no answer, this is the same fault again.
    const bool explained = now_.dead.size + now_.silent.size > 0;
    RasFinding one = about(communicator, "communicator-incomplete",
                           explained ? Severity::warning : Severity::critical, .8);
    add_share(one, who);
    one.finding.verdict =
        text("communicator ", communicator.name,
             " is not whole: ", ras::names_of(one.ranks, size - static_cast<int>(one.ranks.size())), " of ",
             communicator.size, " gave no answer", where(one.processes));
    one.finding.evidence.push_back(
        line(who.line, text("no answer of ", size, size == 1 ? " rank" : " ranks")));
    one.finding.fix = look_at_process;
    findings_.push_back(std::move(one));
  }

  /// Whether the communicator's ranks stood in this status before, too; not asked twice: no.
  bool stood(const Communicator& communicator, Status status) const {
    const Communicator* before = same_in(earlier_.before, communicator);
    if (before == nullptr) return false;
    return std::ranges::find(before->statuses, status, &Standing::status) != before->statuses.end();
  }

  void judge_statuses(const Communicator& communicator) {
    const auto with = [&](Status status) -> const Standing* {
      const auto found = std::ranges::find(communicator.statuses, status, &Standing::status);
      return found == communicator.statuses.end() || found->who.size == 0 ? nullptr : &*found;
    };
    if (const Standing* one = with(Status::abort)) add_abort(communicator, *one);
    const bool others_run = with(Status::running) != nullptr || with(Status::init) != nullptr;
    if (const Standing* one = with(Status::no_communicator))
      add_left(communicator, *one, others_run,
               "not in it: left (ncclCommDestroy, ncclCommAbort) or never joined");
    if (const Standing* one = with(Status::finalize); one != nullptr && others_run)
      add_left(communicator, *one, false,
               "ending it (ncclCommFinalize, ncclCommDestroy) while others use it");
    // A rank whose initialization failed has that said of it.
    const bool failed = std::ranges::any_of(communicator.failures, &Failure::at_init);
    if (const Standing* one = with(Status::init); one != nullptr && !failed)
      add_init(communicator, *one, with(Status::running) != nullptr);
  }

  void add_abort(const Communicator& communicator, const Standing& standing) {
    RasFinding one = about(communicator, "communicator-error", Severity::critical, .8);
    add_share(one, standing.who);
    one.finding.verdict = text("communicator ", communicator.name, " was aborted by ", names_of(standing.who),
                               where(one.processes));
    one.finding.evidence.push_back(line(standing.who.line, text(names_of(standing.who), ": ABORT")));
    one.finding.fix =
        "the program called ncclCommAbort, as PyTorch does after a time-out or an error: read the log of "
        "that rank for the first error";
    findings_.push_back(std::move(one));
  }

  void add_left(const Communicator& communicator, const Standing& standing, bool others_wait,
                std::string_view does) {
    const bool stayed = stood(communicator, standing.status);
    const Severity severity = !others_wait ? (stayed ? Severity::warning : Severity::notice)
                              : stayed     ? Severity::critical
                                           : Severity::warning;
    RasFinding one = about(communicator, "communicator-incomplete", severity, stayed ? .8 : .6);
    add_share(one, standing.who);
    one.finding.verdict = text("communicator ", communicator.name, " is not whole: ", names_of(standing.who),
                               where(one.processes), standing.who.size == 1 ? " is " : " are ", does);
    one.finding.evidence.push_back(
        line(standing.who.line, text(names_of(standing.who), ": ", name(standing.status))));
    one.finding.fix = look_at_process;
    one.finding.not_when = "the job is just ending";
    findings_.push_back(std::move(one));
  }

  void add_init(const Communicator& communicator, const Standing& standing, bool others_run) {
    const bool stayed = stood(communicator, Status::init);
    if (!others_run) {
      add_all_init(communicator.name, standing.who.size, standing.who.line, stayed);
      return;
    }
    RasFinding one =
        about(communicator, "rank-behind", stayed ? Severity::critical : Severity::warning, stayed ? .9 : .6);
    add_share(one, standing.who);
    one.finding.verdict =
        text(names_of(standing.who), " of ", communicator.name, standing.who.size == 1 ? " has" : " have",
             " not ended the initialization of the communicator, and others have", where(one.processes));
    one.finding.evidence.push_back(line(standing.who.line, text(names_of(standing.who), ": INIT")));
    one.finding.fix = look_at_process;
    findings_.push_back(std::move(one));
  }

  void add_all_init(const std::string& communicator, int ranks, int number, bool stayed) {
    RasFinding one{.finding = {.cause = "no-progress",
                               .severity = stayed ? Severity::warning : Severity::notice,
                               .confidence = stayed ? .6 : .2},
                   .communicator = communicator};
    one.finding.verdict =
        text("every rank of communicator ", communicator, " that answered is initializing it",
             stayed ? text(", and was ", seconds_of(earlier_.seconds), " before") : "");
    one.finding.evidence.push_back(line(number, text(ranks, " ranks: INIT")));
    one.finding.fix =
        "ask again; if it stays so, a rank does not call ncclCommInitRank, or cannot connect: see the "
        "logs (NCCL_DEBUG=INFO, weft-report nccl LOGS)";
    findings_.push_back(std::move(one));
  }

  void judge_counts(const Communicator& communicator) {
    auto found = behind_in(communicator, now_.file);
    if (!found) return;
    const Communicator* before = same_in(earlier_.before, communicator);
    const std::vector<int> all = found->ranks;
    const bool stuck = before != nullptr && keep_those_that_stand(communicator, *before, *found);
    // Not listed before: all its ranks stood at the same count, or it is new. Either way it has moved.
    const bool moves = twice() && !stuck;
    if (moves) found->ranks = all;
    const Severity severity = stuck                     ? Severity::critical
                              : moves || found->gap < 2 ? Severity::notice
                              : found->other_operations ? Severity::critical
                                                        : Severity::warning;
    RasFinding one = about(communicator, "rank-behind", severity,
                           stuck                     ? .95
                           : moves                   ? .3
                           : found->gap < 2          ? .3
                           : found->other_operations ? .8
                                                     : .6);
    one.ranks = found->ranks;
    one.processes = processes_of(communicator, one.ranks);
    const bool single = one.ranks.size() + static_cast<std::size_t>(found->unnamed) == 1;
    const std::string does =
        found->other_operations
            ? text(single ? " has" : " have", " launched other operations than the other ranks")
            : text(single ? " is " : " are ", found->gap, found->gap == 1 ? " operation" : " operations",
                   " behind");
    one.finding.verdict =
        text(ras::names_of(one.ranks, found->unnamed), where(one.processes), does, " on communicator ",
             communicator.name,
             stuck            ? text(", and ", single ? "has" : "have", " launched nothing for ",
                                     seconds_of(earlier_.seconds), ": the others wait for ", single ? "it" : "them")
             : moves          ? text(", and ", single ? "moves" : "move", " on: slow and not stuck")
             : found->gap < 2 ? ", which a running job may be at any moment"
                              : "");
    one.finding.evidence = std::move(found->evidence);
    one.finding.fix = found->other_operations ? "make all ranks call the same collectives in the same order: "
                                                "look for a branch on the rank or on data"
                      : twice()               ? look_at_process
                                : "ask twice (--every 10): a rank that stands still is stuck; one that moves "
                                  "is slow, or was only "
                                  "asked a moment earlier";
    findings_.push_back(std::move(one));
  }

  /// Leaves those that have launched nothing since the answer before. @returns whether there are some
  bool keep_those_that_stand(const Communicator& communicator, const Communicator& before,
                             Behind& found) const {
    const RankCounts counts = counts_of(communicator);
    const RankCounts earlier = counts_of(before);
    const auto same_types = [&] {
      return std::ranges::equal(communicator.collectives, before.collectives, {}, &Collective::type,
                                &Collective::type);
    };
    if (counts.empty() || earlier.empty() || !same_types()) {
      const auto earlier_found = behind_in(before, now_.file);
      return earlier_found && lowest(before) == lowest(communicator);
    }
    std::erase_if(found.ranks, [&](int rank) {
      const auto now = counts.find(rank);
      const auto then = earlier.find(rank);
      return now == counts.end() || then == earlier.end() || now->second != then->second;
    });
    return !found.ranks.empty();
  }

  /// The lowest count of each type; a type that all have launched alike is not listed.
  static std::map<std::string, std::uint64_t> lowest(const Communicator& communicator) {
    std::map<std::string, std::uint64_t> all;
    for (const Collective& one : communicator.collectives) {
      for (const Launched& level : one.levels) {
        const auto [place, first] = all.emplace(one.type, level.operations);
        if (!first) place->second = std::min(place->second, level.operations);
      }
    }
    return all;
  }

  /// What a text says of communicators on all of whose ranks it is the same.
  void judge_groups() {
    for (const Group& group : now_.groups) {
      const std::string name = text("#", group.number);
      if (group.errors.find("MISMATCH") != std::string::npos) continue;
      if (group.status == Status::abort) {
        RasFinding one{.finding = {.cause = "communicator-error", .confidence = .8}, .communicator = name};
        one.finding.verdict = text("all ranks that answered have aborted ", group.communicators,
                                   group.communicators == 1 ? " communicator" : " communicators", " of ",
                                   group.size, " ranks (group ", name, ')');
        one.finding.evidence.push_back(line(group.line, text("group ", name, ": ABORT ", group.errors)));
        one.finding.fix =
            "the program called ncclCommAbort, as PyTorch does after a time-out or an error: read the "
            "logs for the first error";
        findings_.push_back(std::move(one));
      } else if (group.status == Status::init) {
        const auto same = [&](const Group& before) {
          return before.status == Status::init && before.size == group.size;
        };
        add_all_init(name, group.size, group.line,
                     twice() && std::ranges::any_of(earlier_.before->groups, same));
      }
    }
  }

  void judge_progress() {
    const auto seen = std::ranges::find_if(
        now_.unread, [](const Evidence& one) { return one.text.find(watchdog) != std::string::npos; });
    const bool reported = seen != now_.unread.end();
    const bool quiet = std::ranges::none_of(
        findings_, [](const RasFinding& one) { return one.finding.severity != Severity::notice; });
    if (now_.communicator_count == 0) {
      add_none();
      return;
    }
    if (!quiet) return;
    // A text has no counts of communicators whose ranks are alike.
    const bool counted = now_.form == Form::json;
    const bool stands = twice() && counted && launches(now_) == launches(*earlier_.before);
    if (twice() && counted && !stands && !reported) return;
    if (!findings_.empty() && !stands && !reported) return;
    const Severity severity = reported ? Severity::critical : stands ? Severity::warning : Severity::notice;
    RasFinding one{.finding = {.cause = "no-progress",
                               .severity = severity,
                               .confidence = reported ? .7
                                             : stands ? .6
                                                      : .1}};
    one.finding.verdict =
        reported ? "every rank has launched the same, and an operation did not end: data does not arrive, "
                   "over the "
                   "network or on a device; RAS counts launches and does not see that"
        : stands
            ? text("no rank has launched an operation for ", seconds_of(earlier_.seconds),
                   ", and all have launched the same: the network or a device stands still, or all ranks do "
                   "something else")
            : "every rank has launched the same; whether the operations end, RAS does not see: a network or "
              "a "
              "device that stands still looks the same as a job that is well";
    one.finding.evidence.push_back(
        reported
            ? *seen
            : line(0, text(now_.communicator_count,
                           now_.communicator_count == 1 ? " communicator" : " communicators",
                           counted ? text(", ", launches(now_), " launches in all") : ", all ranks alike")));
    one.finding.fix = stands || reported ? "see which kernels run: nvidia-smi (100 % use and little power is "
                                           "a collective that waits), the ports' "
                                           "counters (ibstat, ethtool -S), dmesg for Xid; a flight record of "
                                           "PyTorch or libnccl-profiler-weft.so says which rank never began "
                                           "it (weft-report flight DIR)"
                      : counted          ? "ask twice (--every 10) to see whether launches go on"
                                : "this version's text has no counts to compare: PyTorch's flight record "
                                  "(weft-report flight DIR) or "
                                  "the step in the logs says whether the job goes on";
    one.finding.not_when =
        stands ? "the job saves a checkpoint, evaluates, or only sends and receives: RAS counts no "
                 "send and no receive"
               : "";
    findings_.push_back(std::move(one));
  }

  void add_none() {
    RasFinding one{
        .finding = {.cause = "communicator-incomplete", .severity = Severity::notice, .confidence = .4}};
    one.finding.verdict =
        "no process has a communicator: the job has not initialized one, or has ended them all";
    one.finding.evidence.push_back(line(0, "no communicator data"));
    one.finding.fix = "ask again when the job trains";
    findings_.push_back(std::move(one));
  }

  const Answer& now_;
  const Earlier& earlier_;
  std::vector<RasFinding> findings_{};
};

}  // namespace

std::vector<RasFinding> judge(const Answer& answer, const Earlier& earlier) {
  return Judge(answer, earlier).all();
}

std::uint64_t launches(const Answer& answer) {
  std::uint64_t sum = 0;
  for (const Communicator& communicator : answer.communicators) {
    for (const Collective& collective : communicator.collectives) {
      for (const Launched& level : collective.levels)
        sum += level.operations * static_cast<std::uint64_t>(std::max(0, level.who.size));
    }
  }
  return sum;
}

std::string next_question(const std::vector<RasFinding>& findings, const Answer& answer, bool twice) {
  if (!findings.empty() && findings.front().finding.severity != Severity::notice)
    return findings.front().finding.fix;
  if (twice)
    return "nothing: launches go on; ask PyTorch's flight record (weft-report flight DIR) if steps do not";
  return answer.form == Form::json
             ? "does it go on? ask twice: weft-report ras ADDRESS --every 10"
             : "does it go on? the step in the logs, or weft-report flight DIR on a flight record";
}

}  // namespace weft::report::ras
