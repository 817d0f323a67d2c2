#include "weft/gradient/step_account.hpp"

#include <algorithm>

namespace weft {
namespace {

struct Interval {
  double begin;
  double end;
  double length() const { return std::max(0.0, end - begin); }
};

/// Apart from each other and rising.
std::vector<Interval> united(std::vector<Interval> all) {
  std::erase_if(all, [](const Interval& one) { return one.end <= one.begin; });
  std::ranges::sort(all, {}, &Interval::begin);
  std::vector<Interval> result;
  for (const Interval& one : all) {
    if (result.empty() || one.begin > result.back().end) {
      result.push_back(one);
    } else {
      result.back().end = std::max(result.back().end, one.end);
    }
  }
  return result;
}

double total(const std::vector<Interval>& all) {
  double sum = 0;
  for (const Interval& one : all) sum += one.length();
  return sum;
}

double common(const std::vector<Interval>& some, const std::vector<Interval>& others) {
  double sum = 0;
  for (const Interval& a : some) {
    for (const Interval& b : others)
      sum += Interval{std::max(a.begin, b.begin), std::min(a.end, b.end)}.length();
  }
  return sum;
}

std::size_t last_to_bring(std::span<const StepSeen> ranks, std::size_t bucket) {
  const auto ready = [bucket](const StepSeen& one) { return one.buckets[bucket].ready; };
  return static_cast<std::size_t>(std::ranges::max_element(ranks, {}, ready) - ranks.begin());
}

}  // namespace

StepAccount account_of(int rank, std::span<const StepSeen> ranks, bool in_order) {
  const StepSeen& own = ranks[static_cast<std::size_t>(rank)];
  std::vector<Interval> busy;
  std::vector<Interval> waits;
  std::vector<double> waited_for(ranks.size());
  double before_ended = own.begin;
  double end = own.begin;
  for (std::size_t i = 0; i < own.buckets.size(); ++i) {
    const BucketSeen& bucket = own.buckets[i];
    const std::size_t last = last_to_bring(ranks, i);
    const double brought = ranks[last].buckets[i].ready;
    busy.push_back({in_order ? std::max(brought, before_ended) : brought, bucket.ended});
    waits.push_back({bucket.wait_begin, bucket.wait_end});
    if (last != static_cast<std::size_t>(rank))
      waited_for[last] += Interval{bucket.wait_begin, std::min(brought, bucket.wait_end)}.length();
    before_ended = bucket.ended;
    end = std::max(end, bucket.wait_end);
  }
  busy = united(std::move(busy));
  waits = united(std::move(waits));
  StepAccount account{.step = own.step, .seconds = end - own.begin};
  account.exposed_seconds = total(waits) + own.carried;
  account.link_seconds = total(busy);
  account.overlap_seconds = account.link_seconds - common(busy, waits);
  for (std::size_t other = 0; other < waited_for.size(); ++other) {
    account.slowest_seconds += waited_for[other];
    if (waited_for[other] > 0 &&
        (!account.slowest || waited_for[other] > waited_for[static_cast<std::size_t>(*account.slowest)]))
      account.slowest = static_cast<int>(other);
  }
  return account;
}

}  // namespace weft
