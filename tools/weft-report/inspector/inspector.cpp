#include "weft-report/inspector/inspector.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>
#include <set>

#include "common/page/markup.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft/core/text.hpp"

namespace weft::report::inspector {
namespace {

constexpr std::array judged_causes{"bandwidth-low", "one-nic-of-several", "size-falls-off", "socket-speed"};
constexpr std::size_t most_table_rows = 40;
constexpr std::size_t most_named_ranks = 8;

std::string of_share(double share) {
  return text(fixed(100 * std::abs(share), std::abs(share) < 0.1 ? 1 : 0), " %");
}
std::string since_text(Kind kind, std::uint32_t number, std::uint32_t when) {
  return text(name(kind), " #", number, when == 0 ? std::string() : text(" (", time_text(when), ')'));
}

/// A straggler with the communicator in which it shows.
struct Seen {
  std::size_t communicator = 0;
  const Straggler* straggler = nullptr;
};

Evidence evidence_of(const Job& job, const Conclusions& all, const Seen& one) {
  const Communicator& communicator = job.communicators[one.communicator];
  const Member& member = communicator.members[one.straggler->member];
  const Compared& rank = all.comparisons[one.communicator].ranks[one.straggler->member];
  return {communicator.called(), 0,
          text("rank ", member.rank, " on ", member.host, " (pid ", member.pid, "): times ",
               of_share(one.straggler->share), one.straggler->last() ? " shorter" : " longer",
               " than the other ranks' in ", rank.operations, " operations; the shortest of all in ",
               fixed(100 * rank.shortest, 0), " % of them")};
}

/// All ranks of one host, or one rank.
Finding straggler_finding(const Job& job, const Conclusions& all, const std::vector<Seen>& same,
                          std::size_t on_host) {
  const Straggler& first = *same.front().straggler;
  const Communicator& communicator = job.communicators[same.front().communicator];
  const Member& member = communicator.members[first.member];
  const bool host = same.size() > 1 && same.size() == on_host;
  std::string who = host ? text("all ", same.size(), " ranks on ", member.host)
                         : text("rank ", member.rank, " on ", member.host);
  if (!host && same.size() > 1) {
    who = "ranks";
    for (std::size_t i = 0; i < std::min(same.size(), most_named_ranks); ++i)
      who += text(i == 0 ? " " : ", ", communicator.members[same[i].straggler->member].rank);
    who += text(same.size() > most_named_ranks ? ", ..." : "", " on ", member.host);
  }
  const char* verb = same.size() > 1 ? "come" : "comes";
  Finding finding{.cause = "straggler", .severity = Severity::warning, .confidence = 0.85};
  const std::string since = first.from_the_start
                                ? "from the start"
                                : text("since ", since_text(first.kind, first.since, first.when));
  finding.verdict = first.last() ? text(who, ' ', verb, " last, ", since, ": the other ranks of ",
                                        communicator.called(), " wait ", of_share(first.share),
                                        " of each collective, ", fixed(first.seconds, 2), " s in all")
                                 : text(who, same.size() > 1 ? " take " : " takes ", of_share(first.share),
                                        " longer than the other ranks of ", communicator.called(), ", ",
                                        since, ": ", fixed(first.seconds, 2), " s in all");
  for (std::size_t i = 0; i < std::min(same.size(), most_named_ranks); ++i)
    finding.evidence.push_back(evidence_of(job, all, same[i]));
  finding.fix =
      first.last()
          ? "look at what this rank computes between the collectives: clocks and temperature of its GPU "
            "(nvidia-smi -q -d PERFORMANCE), other processes on its host, its share of the data"
          : "look at this rank's GPU and links: clocks (nvidia-smi -q -d PERFORMANCE), NVLink errors "
            "(nvidia-smi nvlink -e), the state of its network port; if it only comes first, it has less to "
            "compute";
  finding.not_when =
      "ranks are meant to have unequal work, as stages of a pipeline that share a communicator";
  return finding;
}

void find_stragglers(const Job& job, Conclusions& all) {
  // By process, the communicator in which it costs the most first; then by host.
  std::vector<Seen> seen;
  for (std::size_t at = 0; at < job.communicators.size(); ++at) {
    for (const Straggler& one : all.comparisons[at].stragglers) seen.push_back({at, &one});
  }
  std::ranges::stable_sort(seen, std::ranges::greater{},
                           [](const Seen& one) { return one.straggler->seconds; });
  std::set<std::pair<std::string, std::int64_t>> done;
  for (const Seen& one : seen) {
    const Communicator& communicator = job.communicators[one.communicator];
    const Member& member = communicator.members[one.straggler->member];
    if (done.contains({member.host, member.pid})) continue;
    std::vector<Seen> same;
    for (const Seen& other : seen) {
      if (other.communicator != one.communicator || other.straggler->last() != one.straggler->last())
        continue;
      const Member& also = communicator.members[other.straggler->member];
      if (also.host == member.host && !done.contains({also.host, also.pid})) same.push_back(other);
    }
    std::ranges::sort(same, {}, [](const Seen& each) { return each.straggler->member; });
    Named named{.communicator = communicator.called()};
    for (const Seen& each : same) {
      const Member& rank = communicator.members[each.straggler->member];
      named.ranks.push_back(rank.rank);
      done.insert({rank.host, rank.pid});
    }
    const auto on_host =
        static_cast<std::size_t>(std::ranges::count(communicator.members, member.host, &Member::host));
    named.finding = straggler_finding(job, all, same, on_host);
    all.findings.push_back(std::move(named));
  }
}

void find_changes(const Job& job, Conclusions& all) {
  // One finding for each communicator and operation: the size in which it costs the most.
  const SizeRow* worst = nullptr;
  const auto cost = [](const SizeRow& row) {
    return row.change && row.change->times() > 1
               ? (row.change->after - row.change->before) * static_cast<double>(row.operations)
               : 0.0;
  };
  const auto tell = [&] {
    if (worst == nullptr) return;
    const Communicator& communicator = job.communicators[worst->communicator];
    const Change& change = *worst->change;
    Finding finding{.cause = "collective-slower", .severity = Severity::warning, .confidence = 0.7};
    finding.verdict =
        text(name(worst->kind), " of ", bandwidth::size_text(static_cast<std::int64_t>(worst->bytes)), " in ",
             communicator.called(), " takes ", fixed(change.times(), 2), " times as long since ",
             since_text(worst->kind, change.number, change.when), ": ", time_taken(change.after),
             " instead of ", time_taken(change.before));
    finding.evidence.push_back(
        {communicator.called(), 0,
         text("median of ", worst->operations, " operations: ", time_taken(change.before), " before #",
              change.number, ", ", time_taken(change.after), " after it")});
    finding.fix =
        "look for what began then: another job on the same network, a link that lost width or went over to "
        "its spare "
        "(weft-report nccl on the logs), clocks of the GPUs, a larger batch";
    all.findings.push_back({.finding = std::move(finding)});
    worst = nullptr;
  };
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    const SizeRow& row = all.rows[i];
    if (is_collective(row.kind) && cost(row) > 0 && (worst == nullptr || cost(row) > cost(*worst)))
      worst = &row;
    const bool ends = i + 1 == all.rows.size() || all.rows[i + 1].communicator != row.communicator ||
                      all.rows[i + 1].kind != row.kind;
    if (ends) tell();
  }
}

void notice(Conclusions& all, const char* cause, std::string verdict, std::string fix, const Job& job) {
  Finding finding{
      .cause = cause, .severity = Severity::notice, .confidence = 1, .verdict = std::move(verdict)};
  finding.evidence.push_back({"", 0, text(job.records, " operations in ", job.files, " files")});
  finding.fix = std::move(fix);
  all.findings.push_back({.finding = std::move(finding)});
}

void find_gaps(const Job& job, Conclusions& all) {
  std::size_t missing = 0;
  std::string where;
  std::uint64_t unseen = 0;
  std::uint64_t by_cpu = 0;
  for (const Communicator& one : job.communicators) {
    std::set<std::int64_t> ranks;
    for (const Member& member : one.members) ranks.insert(member.rank);
    const auto absent = static_cast<std::size_t>(one.ranks) -
                        std::min<std::size_t>(ranks.size(), static_cast<std::size_t>(one.ranks));
    if (absent > missing) {
      missing = absent;
      where = text(one.called(), " has files of ", ranks.size(), " of ", one.ranks, " ranks");
    }
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      by_cpu += static_cast<std::uint64_t>(std::ranges::count(one.operations[kind], false, &Sample::by_gpu));
      if (!ends_together(static_cast<Kind>(kind)) || job.left_out > 0) continue;
      each_operation(one.operations[kind], [&](std::span<const Sample> samples) {
        unseen += ranks.size() - std::min(ranks.size(), samples.size());
      });
    }
  }
  if (missing > 0)
    notice(all, "inspector-ranks-missing", where + "; what the others did is not seen",
           "gather the files of all hosts in one folder: NCCL_INSPECTOR_DUMP_DIR on a shared file system",
           job);
  if (job.lost > 0 || unseen * 20 > job.records)
    notice(all, "inspector-operations-lost",
           job.lost > 0 ? text("NCCL's Inspector dropped ", job.lost, " operations before it wrote them")
                        : text(unseen, " operations are in the files of some ranks alone"),
           "dump more often (NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500), or keep more "
           "(NCCL_INSPECTOR_DUMP_COLL_RING_SIZE); before NCCL 2.30 a dump writes the last operation alone",
           job);
  if (by_cpu > 0)
    notice(all, "inspector-timed-by-cpu",
           text(by_cpu,
                " times are of a CPU's clock, which begins when the host sees the kernel; they are not "
                "compared with a GPU's"),
           "leave NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING at 1 (NCCL 2.30)", job);
}

void find_bandwidths(const Job& job, const std::string& gpu, nccl::Job beside, Conclusions& all) {
  all.judged = beside.matches.empty() ? nccl::JobLog().job() : std::move(beside);  // no logs at all
  all.judged.documents.tables = tables_of(job, all.rows, gpu);
  all.judged.tables.clear();
  for (Finding& finding : nccl::examine(all.judged)) {
    if (std::ranges::find(judged_causes, finding.cause) != judged_causes.end())
      all.findings.push_back({.finding = std::move(finding)});
  }
}

std::string number_or_dash(double value, int digits) {
  return value > 0 ? fixed(value, digits) : "-";
}

TextTable rank_table(const Job& job, const Conclusions& all) {
  TextTable table{.caption = "Ranks that differ most",
                  .heading = {"communicator", "rank", "host", "times", "comes last in", "operations"},
                  .words = 2,
                  .note =
                      "times: the rank's beside the other ranks', as a median over the run; below 0 the "
                      "others wait for it."};
  for (std::size_t at = 0; at < std::min<std::size_t>(job.communicators.size(), 8); ++at) {
    std::vector<Compared> ranks = all.comparisons[at].ranks;
    std::ranges::stable_sort(ranks, std::ranges::greater{},
                             [](const Compared& one) { return std::abs(one.share); });
    for (std::size_t i = 0; i < std::min<std::size_t>(ranks.size(), 3); ++i) {
      const Member& member = job.communicators[at].members[ranks[i].member];
      table.rows.push_back(
          {job.communicators[at].called(), std::to_string(member.rank), member.host,
           text(ranks[i].share < 0 ? "-" : "+", fixed(100 * std::abs(ranks[i].share), 1), " %"),
           text(fixed(100 * ranks[i].shortest, 0), " %"), std::to_string(ranks[i].operations)});
    }
  }
  return table;
}

TextTable size_table(const Job& job, const Conclusions& all) {
  TextTable table{.caption = "Operations",
                  .heading = {"communicator", "operation", "change", "ranks", "nodes", "size", "operations",
                              "median", "p99", "algbw", "busbw"},
                  .words = 2};
  std::vector<const SizeRow*> rows;
  for (const SizeRow& row : all.rows) rows.push_back(&row);
  // Those on which the most time went; printed in their order.
  std::ranges::stable_sort(rows, std::ranges::greater{}, [](const SizeRow* row) {
    return row->median_us * static_cast<double>(row->operations);
  });
  const std::size_t left_out = rows.size() - std::min(rows.size(), most_table_rows);
  rows.resize(std::min(rows.size(), most_table_rows));
  std::ranges::sort(rows);
  for (const SizeRow* row : rows) {
    const Communicator& one = job.communicators[row->communicator];
    table.rows.push_back(
        {one.called(), std::string(name(row->kind)),
         row->change ? text(fixed(row->change->times(), 2), " times since #", row->change->number) : "-",
         std::to_string(one.ranks), one.nodes > 0 ? std::to_string(one.nodes) : "-",
         bandwidth::size_text(static_cast<std::int64_t>(row->bytes)), std::to_string(row->operations),
         time_taken(row->median_us), time_taken(row->p99_us), number_or_dash(row->algbw, 2),
         number_or_dash(row->busbw, 2)});
  }
  table.note = text("Sizes are nccl-tests': of the whole buffer. algbw and busbw are GB/s.",
                    left_out > 0 ? text(" ", left_out, " rows on which less time went are in --json alone.")
                                 : std::string());
  return table;
}

TextTable mean_table(const Job& job) {
  TextTable table{.caption = "Inspector's metrics",
                  .heading = {"communicator", "operation", "host", "GPU", "algorithm", "ranks", "size from",
                              "time", "busbw"},
                  .words = 4,
                  .note = "Means of the last dump, as the Prometheus files state them."};
  for (std::size_t i = 0; i < std::min(job.means.size(), most_table_rows); ++i) {
    const Mean& mean = job.means[i];
    table.rows.push_back({mean.communicator, std::string(name(mean.kind)), mean.host, mean.gpu,
                          mean.algorithm.empty() ? "-" : mean.algorithm, std::to_string(mean.ranks),
                          bandwidth::size_text(static_cast<std::int64_t>(mean.bytes)),
                          time_taken(mean.microseconds), number_or_dash(mean.busbw, 2)});
  }
  return table;
}

}  // namespace

std::vector<Finding> Conclusions::plain() const {
  std::vector<Finding> result;
  for (const Named& one : findings) result.push_back(one.finding);
  return result;
}

Conclusions conclude(const Job& job, nccl::Job beside, const std::string& gpu) {
  Conclusions all;
  for (const Communicator& one : job.communicators) all.comparisons.push_back(compare_ranks(one));
  all.rows = rows_of(job, all.comparisons);
  find_stragglers(job, all);
  find_changes(job, all);
  find_bandwidths(job, gpu, std::move(beside), all);
  find_gaps(job, all);
  sort_by_importance(all.findings);
  return all;
}

std::string time_text(std::uint32_t seconds) {
  if (seconds == 0) return {};
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> words{};
  std::strftime(words.data(), words.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return words.data();
}

std::string time_taken(double microseconds) {
  return microseconds >= 1e6    ? text(fixed(microseconds / 1e6, 2), " s")
         : microseconds >= 1000 ? text(fixed(microseconds / 1000, 2), " ms")
                                : text(fixed(microseconds, 0), " us");
}

std::vector<TextTable> tables(const Job& job, const Conclusions& all) {
  std::vector<TextTable> result;
  for (TextTable table : {size_table(job, all), rank_table(job, all), mean_table(job)}) {
    if (!table.rows.empty()) result.push_back(std::move(table));
  }
  return result;
}

}  // namespace weft::report::inspector
