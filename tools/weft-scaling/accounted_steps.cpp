#include "accounted_steps.hpp"

#include <algorithm>
#include <limits>

#include "contestant.hpp"

namespace weft::scaling {
namespace {

/// When the last rank had each bucket, after the last rank began.
std::vector<double> ready_times(const std::vector<StepSeen>& ranks) {
  double begin = -std::numeric_limits<double>::infinity();
  std::vector<double> ready(ranks.front().buckets.size(), begin);
  for (const StepSeen& rank : ranks) {
    begin = std::max(begin, rank.begin);
    for (std::size_t i = 0; i < ready.size(); ++i) ready[i] = std::max(ready[i], rank.buckets[i].ready);
  }
  for (double& one : ready) one -= begin;
  return ready;
}

/// The spans of a rank: computing between its waits, on the wire, and waiting.
void add_spans(std::vector<StepSpan>& spans, int rank, const StepHistory& history, double origin) {
  const StepSeen& own = history.last[static_cast<std::size_t>(rank)];
  const auto add = [&](const char* track, std::string name, double begin, double end) {
    if (end > begin) spans.push_back({rank, track, std::move(name), begin - origin, end - origin});
  };
  double computes_since = own.begin;
  double before_ended = own.begin;
  for (std::size_t i = 0; i < own.buckets.size(); ++i) {
    const BucketSeen& bucket = own.buckets[i];
    add("compute", i == 0 ? "forward and backward" : text("update: bucket ", i - 1), computes_since,
        bucket.wait_begin);
    add("waiting", text("waiting: bucket ", i), bucket.wait_begin, bucket.wait_end);
    computes_since = bucket.wait_end;
    double brought = bucket.ready;
    for (const StepSeen& other : history.last) brought = std::max(brought, other.buckets[i].ready);
    add("wire", text("bucket ", i), history.in_order ? std::max(brought, before_ended) : brought,
        bucket.ended);
    before_ended = bucket.ended;
  }
}

double median_of(const std::vector<StepAccount>& steps, double StepAccount::*part) {
  std::vector<double> values;
  for (const StepAccount& step : steps) values.push_back(step.*part);
  return quantile(values, 0.5);
}

}  // namespace

void AccountedSteps::add(const StepHistory& history, const BucketPlan& plan) {
  if (history.steps.empty()) return;
  steps_.insert(steps_.end(), history.steps.begin(), history.steps.end());
  std::vector<double> bytes;
  for (const Bucket& bucket : plan.buckets())
    bytes.push_back(static_cast<double>(bucket.count()) *
                    static_cast<double>(size_of(plan.layout().dtype())));
  if (bytes != bytes_) ready_.clear();
  bytes_ = std::move(bytes);
  ready_.push_back(ready_times(history.last));
  last_ = history;
}

StepParts AccountedSteps::median(Communicator comm, std::int64_t skipped) const {
  StepParts parts;
  // A change of the buckets skips steps, so the number identifies the step.
  std::vector<StepAccount> counted = steps_;
  std::erase_if(counted,
                [&](const StepAccount& one) { return static_cast<std::int64_t>(one.step) <= skipped; });
  if (counted.empty()) return parts;
  const auto over_ranks = [&](double mine) { return mean(gather(comm, mine)); };
  parts.overlap = over_ranks(median_of(counted, &StepAccount::overlap_seconds));
  parts.link_busy = over_ranks(median_of(counted, &StepAccount::link_seconds));
  parts.slowest = over_ranks(median_of(counted, &StepAccount::slowest_seconds));
  std::vector<double> waited_for(static_cast<std::size_t>(comm.size()));
  for (const StepAccount& one : counted) {
    if (one.slowest) waited_for[static_cast<std::size_t>(*one.slowest)] += one.slowest_seconds;
  }
  waited_for = mean_of_ranks(comm, std::move(waited_for));
  const auto most = std::ranges::max_element(waited_for);
  if (*most > 0) parts.slowest_rank = static_cast<int>(most - waited_for.begin());
  parts.bytes = bytes_;
  for (std::size_t bucket = 0; bucket < bytes_.size(); ++bucket) {
    std::vector<double> ready;
    for (const auto& one : ready_) ready.push_back(one[bucket]);
    parts.ready.push_back(quantile(ready, 0.5));
  }
  double origin = std::numeric_limits<double>::infinity();
  for (const StepSeen& rank : last_.last) origin = std::min(origin, rank.begin);
  for (int rank = 0; rank < comm.size(); ++rank) add_spans(parts.timeline, rank, last_, origin);
  return parts;
}

double StepParts::bound(double compute_seconds, double bytes_per_second) const {
  double still_to_send = 0;
  double longest = compute_seconds;
  for (std::size_t bucket = bytes.size(); bucket-- > 0;) {
    still_to_send += bytes[bucket];
    longest = std::max(longest, ready[bucket] + still_to_send / bytes_per_second);
  }
  return longest;
}

}  // namespace weft::scaling
