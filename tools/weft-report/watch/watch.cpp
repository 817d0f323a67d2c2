#include "weft-report/watch/watch.hpp"

#include <algorithm>

#include "weft/core/text.hpp"

namespace weft::report {
namespace {

/// What makes a finding of two answers the same one. Counts and gaps change while it stands.
std::string key_of(const ras::RasFinding& one) {
  std::string key = one.finding.cause + ' ' + one.communicator;
  for (const int rank : one.ranks) key += text(' ', rank);
  for (const ras::Process& process : one.processes) key += text(' ', process.node, '/', process.pid);
  return key;
}

std::string line_of(const Finding& one) {
  return text(name(one.severity), ": ", one.verdict, " [", one.cause, ']');
}

}  // namespace

bool Watch::is_alarm(const ras::RasFinding& one, const std::string& key, bool compared) const {
  if (one.finding.severity == Severity::notice) return false;
  if (one.finding.cause == "process-dead") return true;  // NCCL has waited for a minute
  const bool of_counts = one.finding.cause == "rank-behind" || one.finding.cause == "no-progress";
  if (of_counts && compared) return true;
  if (of_counts && one.finding.severity != Severity::critical) return false;
  return seen_.contains(key);
}

std::vector<std::string> Watch::replace(Standing& standing, Standing now) {
  std::vector<std::string> lines;
  for (const auto& [key, one] : now) {
    const auto before = standing.find(key);
    if (before == standing.end() || before->second.finding.severity < one.finding.severity)
      lines.push_back(line_of(one.finding));
  }
  for (const auto& [key, one] : standing) {
    if (!now.contains(key))
      lines.push_back(text("over: ", one.finding.verdict, " [", one.finding.cause, ']'));
  }
  standing = std::move(now);
  return lines;
}

std::vector<std::string> Watch::answered(double now, ras::Answer answer) {
  std::vector<std::string> lines;
  if (answers_ == 0 || misses_ > 0)
    lines.push_back(text("NCCL ", answer.nccl, " answers at ", answer.file, ": ", answer.communicator_count,
                         answer.communicator_count == 1 ? " communicator" : " communicators"));
  ++answers_;
  misses_ = 0;
  while (history_.size() > 1 && now - history_[1].first >= patience_) history_.pop_front();
  const bool compared = !history_.empty() && now - history_.front().first >= patience_;
  const auto found =
      compared ? judge(answer, {.before = &history_.front().second, .seconds = now - history_.front().first})
               : judge(answer);
  Standing standing;
  std::set<std::string> seen;
  for (const ras::RasFinding& one : found) {
    const std::string key = key_of(one);
    seen.insert(key);
    if (is_alarm(one, key, compared)) standing.emplace(key, one);
  }
  seen_ = std::move(seen);
  for (std::string& line : replace(of_ras_, std::move(standing))) lines.push_back(std::move(line));
  last_ = answer;
  history_.emplace_back(now, std::move(answer));
  return lines;
}

std::vector<std::string> Watch::missed(const std::string& why) {
  ++misses_;
  if (misses_ > 1) return {};
  return {text(answers_ == 0 ? "waits for a job: " : "no answer: ", why)};
}

std::vector<std::string> Watch::looked(double now, const std::vector<RankLook>& looks) {
  const int before = ranks_.answered();
  const bool first = ranks_.misses() == 0 && !ranks_.ever_answered();
  const auto& found_now = ranks_.looked(now, looks);
  std::vector<std::string> lines;
  const auto all = static_cast<int>(looks.size());
  if (ranks_.answered() == all && before != all) {
    lines.push_back(
        text(all == 1 ? "the rank" : text("all ", all, " ranks"), " of weft answer", all == 1 ? "s" : ""));
  } else if (ranks_.answered() == 0 && (first || before > 0)) {
    const std::string why =
        looks.empty() ? std::string() : text(looks.front().address, ": ", looks.front().why);
    lines.push_back(text(ranks_.ever_answered() ? "no rank answers: " : "waits for ranks: ", why));
  }
  for (std::string& line : found("ranks", found_now)) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> Watch::found(const std::string& source,
                                      const std::vector<ras::RasFinding>& findings) {
  Standing standing;
  for (const ras::RasFinding& one : findings) {
    const bool is_of_ranks = !one.ranks.empty() || !one.communicator.empty();
    standing.emplace(is_of_ranks ? key_of(one) : text(one.finding.cause, ' ', one.finding.verdict), one);
  }
  return replace(of_sources_[source], std::move(standing));
}

std::vector<std::string> Watch::read(const std::string& source, const std::vector<Finding>& findings) {
  std::vector<ras::RasFinding> all;
  for (const Finding& one : findings) {
    if (one.severity != Severity::notice) all.push_back({.finding = one});
  }
  return found(source, all);
}

std::vector<ras::RasFinding> Watch::standing() const {
  std::vector<ras::RasFinding> all;
  for (const auto& one : of_ras_) all.push_back(one.second);
  for (const auto& source : of_sources_) {
    for (const auto& one : source.second) all.push_back(one.second);
  }
  std::ranges::stable_sort(all, [](const ras::RasFinding& a, const ras::RasFinding& b) {
    return a.finding.severity != b.finding.severity ? a.finding.severity > b.finding.severity
                                                    : a.finding.confidence > b.finding.confidence;
  });
  return all;
}

std::vector<Finding> Watch::findings() const {
  std::vector<Finding> all;
  for (const ras::RasFinding& one : standing()) all.push_back(one.finding);
  return all;
}

}  // namespace weft::report
