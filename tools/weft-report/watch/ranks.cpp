#include "weft-report/watch/ranks.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "common/findings/report.hpp"
#include "core/base/number.hpp"
#include "weft/core/error.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

// A rank is late by this share of the time of accounted steps more than any other; or, in each of some stretches, by a smaller share that is
// several times that of any other. A rank that pauses while it exchanges is late with few gradients: of 6 ranks on 2 cores, one that had the
// processor for a third of its time was late for .05 to .24, the others for .01. Where all were well, 3 ranks on 2 cores, the latest had
// 3.3 times the second's share. `tests/soak.sh watches` has such trainings.
constexpr double late_share = 1.0 / 3;
constexpr double lasting_share = 0.05;
constexpr double lasting_times = 5;
constexpr std::size_t lasting_stretches = 4;
constexpr std::size_t most_accounts = 4096;

/// One line of Prometheus' text: name{label="value",...} number
struct Row {
  std::string_view name{};
  std::map<std::string, std::string, std::less<>> labels{};
  double value = 0;

  std::string_view label(std::string_view which) const {
    const auto found = labels.find(which);
    return found == labels.end() ? std::string_view() : std::string_view(found->second);
  }
};

/// The value of a label, without the escapes of the format. @param rest begins behind the first quotation mark, and then behind the second
std::optional<std::string> unquoted(std::string_view& rest) {
  std::string value;
  bool escaped = false;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (!escaped && c == '"') {
      rest.remove_prefix(i + 1);
      return value;
    }
    if (!escaped && c == '\\') {
      escaped = true;
      continue;
    }
    value += escaped && c == 'n' ? '\n' : c;
    escaped = false;
  }
  return std::nullopt;
}

bool take_labels(std::string_view& rest, Row& row) {
  while (!rest.starts_with('}')) {
    const std::size_t equals = rest.find("=\"");
    if (equals == std::string_view::npos) return false;
    const std::string name(rest.substr(0, equals));
    rest.remove_prefix(equals + 2);
    auto value = unquoted(rest);
    if (!value) return false;
    row.labels[name] = std::move(*value);
    if (rest.starts_with(',')) rest.remove_prefix(1);
  }
  rest.remove_prefix(1);
  return true;
}

/// nullopt: it is none
std::optional<Row> row_of(std::string_view line) {
  Row row;
  const std::size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos) return std::nullopt;
  row.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    if (!take_labels(line, row)) return std::nullopt;
  }
  while (line.starts_with(' ')) line.remove_prefix(1);
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), row.value);
  if (error != std::errc() || !std::isfinite(row.value)) return std::nullopt;
  return row;
}

int whole(std::string_view word) {
  return detail::number_of<int>(word).value_or(-1);
}

void take(const Row& row, RankFigures& figures) {
  if (row.name == "weft_info") figures.size = whole(row.label("size"));
  if (row.name == "weft_operation_number")
    figures.operations[text(row.label("communicator"), ", ", row.label("lane"))] = row.value;
  if (row.name == "weft_oldest_operation_seconds") figures.oldest = row.value;
  if (row.name == "weft_steps_total") figures.steps = row.value;
  if (row.name == "weft_late_seconds_total") figures.late = row.value;
  if (row.name == "weft_accounted_seconds_total") figures.accounted = row.value;
}

bool is_of_all_ranks(std::string_view key) {
  return key.starts_with("world, ");
}

/// Of a lane of all ranks a rank that does not name it has issued nothing; of another communicator it is no member.
std::optional<double> issued(const RankFigures& figures, const std::string& key) {
  const auto found = figures.operations.find(key);
  if (found != figures.operations.end()) return found->second;
  return is_of_all_ranks(key) ? std::optional(0.0) : std::nullopt;
}

std::string ranks_words(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  std::string words;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) words += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) words += text(" and ", names.size() - most, " more");
  return words;
}

}  // namespace

RankFigures parse_figures(std::string_view text_of_rank, const std::string& from) {
  RankFigures figures{.rank = -1};
  for (std::size_t at = 0; at < text_of_rank.size();) {
    const std::size_t end = std::min(text_of_rank.find('\n', at), text_of_rank.size());
    std::string_view line = text_of_rank.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("weft_")) continue;
    const auto row = row_of(line);
    if (!row) continue;
    if (row->name == "weft_info") figures.rank = whole(row->label("rank"));
    take(*row, figures);
  }
  if (figures.rank < 0 || figures.size < 1 || figures.rank >= figures.size)
    throw Error(ErrorKind::usage, text(from, ": what is served there is not of a rank of weft"),
                "name the port of weft-scaling --metrics, or of MetricsOptions::port");
  return figures;
}

void RanksWatch::note(double now, Rank& rank, const RankLook& look) const {
  rank.address = look.address;
  rank.why = look.why;
  rank.refused = look.refused;
  rank.answers = look.figures.has_value();
  if (!look.figures) return;
  const RankFigures& figures = *look.figures;
  if (!rank.last || rank.last->operations != figures.operations || rank.last->steps != figures.steps)
    rank.moved_at = now;
  if (rank.accounts.empty() || rank.accounts.back().accounted != figures.accounted)
    rank.accounts.push_back({now, figures.late, figures.accounted});
  if (rank.accounts.size() > most_accounts) rank.accounts.pop_front();
  rank.answered_at = now;
  rank.last = figures;
}

double RanksWatch::longest_wait() const {
  double longest = 0;
  for (const Rank& one : ranks_) {
    if (one.answers) longest = std::max(longest, one.last->oldest);
  }
  return longest;
}

std::string RanksWatch::waiting_words() const {
  std::vector<std::string> names;
  for (const Rank& one : ranks_) {
    if (one.waits(patience_)) names.push_back(std::to_string(one.last->rank));
  }
  return text(names.size() == 1 ? "rank " : "ranks ", ranks_words(names),
              names.size() == 1 ? " has waited " : " have waited ", longest_wait(), " s in an operation");
}

/// Those that give no answer for as long as the caller has patience, while another waits.
std::optional<ras::RasFinding> RanksWatch::silent(double now, bool refused) const {
  ras::RasFinding one;
  std::vector<std::string> names;
  for (const Rank& rank : ranks_) {
    if (rank.answers || rank.refused != refused || now - rank.answered_at < patience_) continue;
    names.push_back(rank.last ? text("rank ", rank.last->rank, " (", rank.address, ")")
                              : text("the rank at ", rank.address));
    one.finding.evidence.push_back({rank.address, 0, rank.why});
    if (rank.last) one.ranks.push_back(rank.last->rank);
  }
  if (names.empty()) return std::nullopt;
  const bool several = names.size() > 1;
  one.finding.cause = refused ? "process-dead" : "process-unresponsive";
  one.finding.confidence = 0.95;
  one.finding.verdict = text(
      ranks_words(names),
      refused ? (several ? " have ended" : " has ended") : (several ? " give no answer" : " gives no answer"),
      ": ", waiting_words());
  one.finding.fix =
      refused
          ? "see the log of that rank: it has ended, and the others wait for it"
          : "see whether that process is stopped (ps -o pid,stat,cmd: T), and whether its host and link are "
            "up; where most ranks are silent, look at the link of the host on which the watch runs";
  return one;
}

/// Of the ranks that stand still, those with the fewest operations issued: others wait in an operation that they have not issued.
std::optional<ras::RasFinding> RanksWatch::behind(double now) const {
  std::map<std::string, double> newest;
  for (const Rank& rank : ranks_) {
    if (!rank.answers) continue;
    for (const auto& [key, number] : rank.last->operations) newest[key] = std::max(newest[key], number);
  }
  for (const auto& [key, most] : newest) {
    std::vector<const Rank*> found;
    double least = most;
    for (const Rank& rank : ranks_) {
      const auto number = rank.answers ? issued(*rank.last, key) : std::nullopt;
      if (!number || *number >= most || *number > least || now - rank.moved_at < patience_) continue;
      if (*number < least) found.clear();
      least = *number;
      found.push_back(&rank);
    }
    // One that waits itself may be behind for another's sake.
    const bool some_do_not_wait =
        std::ranges::any_of(found, [&](const Rank* one) { return one->last->oldest == 0; });
    if (some_do_not_wait) std::erase_if(found, [](const Rank* one) { return one->last->oldest != 0; });
    if (found.empty()) continue;
    ras::RasFinding one;
    std::vector<std::string> names;
    for (const Rank* rank : found) {
      one.ranks.push_back(rank->last->rank);
      names.push_back(std::to_string(rank->last->rank));
      one.finding.evidence.push_back(
          {rank->address, 0,
           text("rank ", rank->last->rank, " has issued ", *issued(*rank->last, key), " operations of ", key,
                ", others ", most)});
    }
    one.communicator = key.substr(0, key.rfind(','));
    one.finding.cause = "rank-behind";
    one.finding.confidence = some_do_not_wait ? 0.95 : 0.8;
    one.finding.verdict =
        text(names.size() == 1 ? "rank " : "ranks ", ranks_words(names), names.size() == 1 ? " is " : " are ",
             most - least, " behind on ", key, ", and stood still for ", now - found.front()->moved_at,
             " s: ", waiting_words());
    one.finding.fix =
        "see what that rank does instead: data loading, swapping, a debugger, a branch that only it takes "
        "(gdb -p, py-spy)";
    return one;
  }
  return std::nullopt;
}

std::optional<ras::RasFinding> RanksWatch::standing_still(double now) const {
  if (std::ranges::any_of(ranks_,
                          [&](const Rank& one) { return !one.answers || now - one.moved_at < patience_; }))
    return std::nullopt;
  ras::RasFinding one{.communicator = "world"};
  one.finding = {.cause = "no-progress",
                 .severity = Severity::critical,
                 .confidence = 0.7,
                 .verdict = text("all ranks have issued the same, and none goes on: ", waiting_words()),
                 .fix =
                     "kill -USR2 of each rank writes its flight record; weft-report flight DIR says which "
                     "rank never began the "
                     "operation. Warnings in the log (\"has waited\") name whom each rank waits for"};
  return one;
}

/// How late a rank was between two of its accounts, without the account in which it was latest: that may be a moment's pause.
RanksWatch::Lateness RanksWatch::between(const Rank& rank, std::size_t from, std::size_t to) {
  Account worst;
  for (std::size_t i = from + 1; i <= to; ++i) {
    const Account& one = rank.accounts[i];
    const Account& before = rank.accounts[i - 1];
    if (one.late - before.late > worst.late)
      worst = {0, one.late - before.late, one.accounted - before.accounted};
  }
  return {rank.accounts[to].late - rank.accounts[from].late - worst.late,
          rank.accounts[to].accounted - rank.accounts[from].accounted - worst.accounted};
}

/// How late a rank was in the newest stretches, the newest first: each of two accounts or more, as long as the caller has patience, with half
/// of that time in accounted steps.
std::vector<RanksWatch::Lateness> RanksWatch::lateness(const Rank& rank) const {
  std::vector<Lateness> stretches;
  if (!rank.answers) return stretches;
  std::size_t to = rank.accounts.size() - 1;
  for (std::size_t from = to; from-- > 0 && stretches.size() < lasting_stretches;) {
    const Account& first = rank.accounts[from];
    const Account& last = rank.accounts[to];
    if (to - from < 2 || last.when - first.when < patience_ ||
        last.accounted - first.accounted < patience_ / 2)
      continue;
    stretches.push_back(between(rank, from, to));
    to = from;
  }
  return stretches;
}

/// The rank for whose gradients the others waited longest, unless another was late nearly as much: that is noise.
std::optional<ras::RasFinding> RanksWatch::late() const {
  std::vector<std::vector<Lateness>> all;
  for (const Rank& rank : ranks_) all.push_back(lateness(rank));
  const auto share = [&all](std::size_t rank, std::size_t stretch) {
    return stretch < all[rank].size() ? all[rank][stretch].share() : 0;
  };
  std::size_t latest = 0;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (share(rank, 0) > share(latest, 0)) latest = rank;
  }
  const auto of_others = [&](std::size_t stretch) {
    double most = 0;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank != latest) most = std::max(most, share(rank, stretch));
    }
    return most;
  };
  std::size_t lasted = 0;
  while (lasted < lasting_stretches && share(latest, lasted) >= lasting_share &&
         share(latest, lasted) >= lasting_times * of_others(lasted))
    ++lasted;
  const bool much = share(latest, 0) - of_others(0) >= late_share;
  if (!much && lasted < lasting_stretches) return std::nullopt;
  Lateness counted;
  for (std::size_t stretch = 0; stretch < (much ? 1 : lasting_stretches); ++stretch) {
    counted.late += all[latest][stretch].late;
    counted.accounted += all[latest][stretch].accounted;
  }
  const Rank& slow = ranks_[latest];
  ras::RasFinding one;
  one.ranks.push_back(slow.last->rank);
  one.finding = {.cause = "rank-late",
                 .severity = Severity::warning,
                 .confidence = 0.9,
                 .verdict = text("rank ", slow.last->rank, " (", slow.address,
                                 ") is slow: the others waited for its gradients ",
                                 std::lround(counted.share() * 100), " % of the time"),
                 .evidence = {{slow.address, 0, text(counted.late, " s of ", counted.accounted, " s")}},
                 .fix = "look at its machine: other programs, temperature, a core that two ranks share"};
  return one;
}

const std::vector<ras::RasFinding>& RanksWatch::looked(double now, const std::vector<RankLook>& looks) {
  if (ranks_.empty()) {
    ranks_.resize(looks.size());
    for (Rank& one : ranks_) one.answered_at = one.moved_at = now;
  }
  answered_ = 0;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    note(now, ranks_[i], looks[i]);
    answered_ += ranks_[i].answers ? 1 : 0;
  }
  misses_ = answered_ == 0 ? misses_ + 1 : 0;
  if (answered_ == 0) return found_;
  ++answers_;
  std::vector<ras::RasFinding> found;
  const auto add = [&found](std::optional<ras::RasFinding> one) {
    if (one) found.push_back(std::move(*one));
  };
  if (longest_wait() >= patience_) {
    add(silent(now, true));
    add(silent(now, false));
    if (found.empty()) add(behind(now));
    if (found.empty()) add(standing_still(now));
  }
  if (found.empty()) add(late());
  found_ = std::move(found);
  return found_;
}

}  // namespace weft::report
