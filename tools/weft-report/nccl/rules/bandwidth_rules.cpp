// Causes that measured bandwidths show. What a table shows is a symptom: another finding may be its cause, and then speaks first.

#include <algorithm>
#include <cmath>

#include "weft-report/nccl/judge.hpp"
#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using bandwidth::Judged;
using bandwidth::Measured;
using bandwidth::Row;
using bandwidth::size_text;
using bandwidth::Table;

constexpr std::int64_t large = std::int64_t{32} << 20;  // from here on latency says little
constexpr double far_below = 0.5;
constexpr double clearly_slower = 0.75;
constexpr double slow_start = 5;          // times the latency of NCCL's model
constexpr double slow_start_least = 100;  // microseconds
constexpr std::size_t most_rows_shown = 3;

std::string in_gigabytes(double value) {
  const double tenths = std::round(value * 10) / 10;
  return text(value < 10 ? tenths : std::round(value), " GB/s");
}
std::string called(const Judged& one) {
  const std::string op = one.op.empty() ? "the benchmark" : one.op;
  return one.shape.ranks > 0 ? text(op, " of ", one.shape.ranks, " ranks") : op;
}

Evidence evidence_of(const Table& table, const Row& row) {
  if (!row.text.empty()) return {table.heading.file, row.line, row.text};
  return {
      table.heading.file, 0,
      text(table.op, ' ', row.bytes, " bytes: ", row.best().microseconds, " us, busbw ", row.best().busbw)};
}
const Row* row_of(const Table& table, std::int64_t bytes) {
  const auto found = std::ranges::find(table.rows, bytes, &Row::bytes);
  return found == table.rows.end() ? nullptr : &*found;
}
bool goes_around(const std::string& op) {
  return op == "all_reduce" || op == "all_gather" || op == "reduce_scatter";
}

void find_low_bandwidth(const Job& job, std::vector<Finding>& findings) {
  for (const Judged& one : bandwidth::judge(job)) {
    const bandwidth::Bound& bound = one.speed.bound;
    // PCIe below one CPU is shared by several GPUs: what NCCL's search found says more than the link of one.
    const bool shared = bound.limit == bandwidth::Limit::pcie;
    const double can = shared ? bound.planned : bound.busbw;
    const bool judged =
        goes_around(one.op) || one.op == "broadcast" || one.op == "reduce" || one.op == "alltoall";
    if (!judged || can <= 0 || one.speed.bytes < large || one.speed.busbw >= far_below * can) continue;
    std::vector<Evidence> evidence{evidence_of(*one.table, *one.table->largest())};
    const auto ring = job.links.graphs.find(4);
    if (bound.planned > 0 && ring != job.links.graphs.end()) evidence.push_back(ring->second.evidence);
    Finding finding = finding_of("bandwidth-low", 0.5, std::move(evidence));
    const std::string_view limit = shared ? name(bandwidth::Limit::search) : name(bound.limit);
    finding.verdict =
        text(called(one), " reaches a bus bandwidth of ", in_gigabytes(one.speed.busbw), " at ",
             size_text(one.speed.bytes), ", of ", in_gigabytes(can), " that ", limit, " allows");
    return findings.push_back(std::move(finding));
  }
}

void find_one_nic(const Job& job, std::vector<Finding>& findings) {
  const bandwidth::Links links = bandwidth::links_of(job);
  const double widest = links.widest_nic();
  if (links.nics_per_node() < 2 || links.nics_of_a_node() < 1.9 * widest) return;
  for (const Judged& one : bandwidth::judge(job)) {
    const double busbw = one.speed.busbw;
    if (one.shape.nodes < 2 || !goes_around(one.op) || one.speed.bytes < large) continue;
    if (busbw > 1.05 * widest || busbw < far_below * widest) continue;
    Finding finding =
        finding_of("one-nic-of-several", 0.55, {evidence_of(*one.table, *one.table->largest())});
    finding.evidence.push_back(links.least()->best().begin()->second.evidence);
    finding.verdict = text(called(one), " moves ", in_gigabytes(busbw), " between nodes: what one of ",
                           links.nics_per_node(), " network ports carries (", in_gigabytes(widest), ')');
    return findings.push_back(std::move(finding));
  }
}

void find_socket_speed(const Job& job, std::vector<Finding>& findings) {
  const auto sockets = std::ranges::find_if(job.processes, [](const Process& one) {
    return one.network.value == "Socket" && (one.connections.socket > 0 || one.nodes > 1);
  });
  if (sockets == job.processes.end()) return;
  for (const Judged& one : bandwidth::judge(job)) {
    if (one.shape.nodes < 2 || one.speed.bytes < large) continue;
    Finding finding = finding_of("socket-speed", 0.5, {evidence_of(*one.table, *one.table->largest())});
    finding.evidence.push_back(sockets->network.evidence);
    finding.verdict = text(called(one), " moves ", in_gigabytes(one.speed.busbw), " between nodes, over TCP");
    return findings.push_back(std::move(finding));
  }
}

/// Where NCCL's lines name another choice at the slow size than at the fast one.
void add_choices(const Job& job, const Judged& one, const bandwidth::FallOff& fall, Finding& finding) {
  const bandwidth::Chosen* before = nullptr;
  const bandwidth::Chosen* at = nullptr;
  for (const auto& [key, chosen] : job.tuning.chosen) {
    if (key.first != bandwidth::Collective::all_reduce || one.op != "all_reduce") continue;
    if (key.second == fall.before_bytes) before = &chosen;
    if (key.second == fall.bytes) at = &chosen;
  }
  if (before == nullptr || at == nullptr) return;
  if (before->algorithm == at->algorithm && before->protocol == at->protocol) return;
  finding.evidence.push_back(at->evidence);
  finding.confidence = 0.6;
  finding.verdict += text("; NCCL changes from ", name(before->algorithm), '/', name(before->protocol),
                          " to ", name(at->algorithm), '/', name(at->protocol));
}

void find_falls(const Job& job, std::vector<Finding>& findings) {
  for (const Judged& one : bandwidth::judge(job)) {
    if (one.speed.falls.empty() || !one.table->on_gpus()) continue;
    const bandwidth::FallOff& first = one.speed.falls.front();
    Finding finding = finding_of("size-falls-off", 0.4, {});
    for (const std::int64_t bytes : {first.bytes, first.before_bytes}) {
      if (const Row* row = row_of(*one.table, bytes))
        finding.evidence.push_back(evidence_of(*one.table, *row));
    }
    finding.verdict =
        text(called(one), " falls from ", in_gigabytes(first.before), " at ", size_text(first.before_bytes),
             " to ", in_gigabytes(first.algbw), " at ", size_text(first.bytes),
             first.recovers ? ", and is faster again at larger sizes" : ", and stays slower");
    add_choices(job, one, first, finding);
    return findings.push_back(std::move(finding));
  }
}

void find_wrong_values(const Job& job, std::vector<Finding>& findings) {
  for (const Judged& one : bandwidth::judge(job)) {
    if (one.speed.wrong == 0 && one.table->out_of_bounds <= 0) continue;
    Finding finding = finding_of("wrong-results", 0.95, {});
    const auto is_wrong = [](const std::optional<Measured>& half) { return half && half->wrong > 0; };
    for (const Row& row : one.table->rows) {
      if ((is_wrong(row.out_of_place) || is_wrong(row.in_place)) && finding.evidence.size() < most_rows_shown)
        finding.evidence.push_back(evidence_of(*one.table, row));
    }
    if (finding.evidence.empty()) finding.evidence.push_back(one.table->heading);
    finding.verdict =
        text(called(one), " gave ", std::max(one.speed.wrong, one.table->out_of_bounds), " wrong values");
    return findings.push_back(std::move(finding));
  }
}

/// The largest sizes agree that one way is slower.
void find_in_place(const Job& job, std::vector<Finding>& findings) {
  for (const Judged& one : bandwidth::judge(job)) {
    std::vector<const Row*> rows;
    for (const Row& row : one.table->rows) {
      if (row.bytes >= large && row.in_place && row.out_of_place) rows.push_back(&row);
    }
    std::ranges::stable_sort(rows, std::greater<>(), [](const Row* row) { return row->bytes; });
    if (rows.size() < most_rows_shown) continue;
    rows.resize(most_rows_shown);
    const auto all = [&](auto slower, auto faster) {
      return std::ranges::all_of(rows, [&](const Row* row) {
        return ((*row).*slower)->busbw < clearly_slower * ((*row).*faster)->busbw;
      });
    };
    const bool in_place = all(&Row::in_place, &Row::out_of_place);
    if (!in_place && !all(&Row::out_of_place, &Row::in_place)) continue;
    Finding finding = finding_of("in-place-differs", 0.4, {evidence_of(*one.table, *rows.front())});
    finding.verdict = text(called(one), in_place ? " is slower in place: " : " is slower out of place: ",
                           in_gigabytes(rows[0]->out_of_place->busbw), " out of place, ",
                           in_gigabytes(rows[0]->in_place->busbw), " in place");
    return findings.push_back(std::move(finding));
  }
}

std::string where(const Table& table, const Table& other) {
  if (table.hosts.empty() || table.hosts == other.hosts)
    return text(table.heading.file, ", line ", table.heading.line);
  return table.hosts.size() == 1 ? *table.hosts.begin()
                                 : text(*table.hosts.begin(), " and ", table.hosts.size() - 1, " more hosts");
}
void find_differing(const Job& job, std::vector<Finding>& findings) {
  const std::vector<Judged> all = bandwidth::judge(job);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Judged& a = all[i];
      const Judged& b = all[j];
      if (a.op != b.op || a.op.empty() || a.shape.ranks != b.shape.ranks || a.speed.bytes != b.speed.bytes)
        continue;
      if (a.speed.bytes < large || a.shape.nodes != b.shape.nodes) continue;
      const auto [slow, fast] = a.speed.busbw < b.speed.busbw ? std::pair(&a, &b) : std::pair(&b, &a);
      if (slow->speed.busbw >= clearly_slower * fast->speed.busbw) continue;
      Finding finding = finding_of("results-differ", 0.45,
                                   {evidence_of(*slow->table, *slow->table->largest()),
                                    evidence_of(*fast->table, *fast->table->largest())});
      finding.verdict = text(called(a), " reaches ", in_gigabytes(slow->speed.busbw), " on ",
                             where(*slow->table, *fast->table), " and ", in_gigabytes(fast->speed.busbw),
                             " on ", where(*fast->table, *slow->table));
      return findings.push_back(std::move(finding));
    }
  }
}

void find_floor_above_costs(const Job& job, std::vector<Finding>& findings) {
  const std::vector<Judged> tables = bandwidth::judge(job);
  const std::vector<bandwidth::SizeChoice> choices = bandwidth::choices_by_size(job);
  for (const Judged& one : tables) {
    const auto same = std::ranges::find_if(choices, [&](const bandwidth::SizeChoice& choice) {
      return choice.bytes == one.speed.floor_bytes && choice.bytes <= 4096;
    });
    if (!one.table->on_gpus() || same == choices.end()) continue;
    const double expected = same->predicted.microseconds;
    if (one.speed.floor_us < slow_start * expected || one.speed.floor_us < slow_start_least) continue;
    const Row* row = row_of(*one.table, one.speed.floor_bytes);
    Finding finding = finding_of("latency-high", 0.4, {evidence_of(*one.table, *row)});
    finding.verdict = text(called(one), " takes ", std::round(one.speed.floor_us), " us at ",
                           size_text(one.speed.floor_bytes), "; NCCL's costs say ", std::round(expected));
    return findings.push_back(std::move(finding));
  }
}

void find_contradicted(const Job& job, std::vector<Finding>& findings) {
  std::vector<bandwidth::SizeChoice> wrong = bandwidth::choices_by_size(job);
  std::erase_if(wrong, [](const auto& one) { return !one.contradicts || one.bytes < (1 << 16); });
  if (wrong.size() < 2) return;
  const bandwidth::SizeChoice& worst = *std::ranges::max_element(
      wrong, {}, [](const auto& one) { return one.measured / one.other.microseconds; });
  for (const Judged& one : bandwidth::judge(job)) {
    const Row* row = row_of(*one.table, worst.bytes);
    if (row == nullptr || row->best().microseconds != worst.measured) continue;
    Finding finding = finding_of("choice-contradicted", 0.35, {evidence_of(*one.table, *row)});
    const bandwidth::Choice& used = worst.chosen ? *worst.chosen : worst.predicted;
    finding.verdict =
        text(called(one), " of ", size_text(worst.bytes), " took ", std::round(worst.measured), " us with ",
             name(used.algorithm), '/', name(used.protocol), ", for which NCCL expects ",
             std::round(used.microseconds), "; ", name(worst.other.algorithm), '/',
             name(worst.other.protocol), " might take ", std::round(worst.other.microseconds));
    return findings.push_back(std::move(finding));
  }
}

void find_low_average(const Job& job, std::vector<Finding>& findings) {
  for (const Judged& one : bandwidth::judge(job)) {
    if (one.table->average_verdict != "FAILED") continue;
    Finding finding = finding_of("average-bandwidth-low", 0.9, {one.table->average});
    finding.verdict = text(called(one), " has an average bus bandwidth of ",
                           in_gigabytes(one.table->average_busbw), ", below what NCCL_TESTS_MIN_BW asks for");
    return findings.push_back(std::move(finding));
  }
}

constexpr JobRule bandwidth_table[] = {
    {"wrong-results", "a table of nccl-tests with #wrong above 0", find_wrong_values},
    {"average-bandwidth-low", "Avg bus bandwidth ... FAILED", find_low_average},
    {"one-nic-of-several", "busbw between nodes equals the speed of one of several network ports",
     find_one_nic},
    {"bandwidth-low", "busbw at the largest size is below half of what links allow", find_low_bandwidth},
    {"socket-speed", "network Socket, and a table of ranks on several nodes", find_socket_speed},
    {"results-differ", "two tables of one operation, size and number of ranks, one 25 % slower",
     find_differing},
    {"size-falls-off", "algbw below 80 % of a smaller size's, out of place and in place", find_falls},
    {"in-place-differs", "the three largest sizes are 25 % slower in place, or out of place", find_in_place},
    {"latency-high", "the shortest time is 5 times what the TUNING table says, and above 100 us",
     find_floor_above_costs},
    {"choice-contradicted", "two sizes take twice what NCCL's costs say, and another choice would be faster",
     find_contradicted},
};

}  // namespace

std::span<const JobRule> bandwidth_rules() {
  return bandwidth_table;
}

}  // namespace weft::report::nccl
