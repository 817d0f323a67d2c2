// The bucket planner: a dynamic program over places between parameters, linear in their number.
//
// Parameters are put in the order in which their buckets may leave (Sequence): that of the layout, from its
// end; and, where backward jumps, the order in which ranges were ready. For each sequence, Search finds for
// every place the earliest time at which all parameters before it can have arrived, and the last bucket of
// that solution (find_ends()). The plan is read backwards from the last place (cuts()). The sequence that
// ends sooner wins.

#include "weft/gradient/bucket_planner.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iomanip>
#include <sstream>

#include "core/base/strings.hpp"

namespace weft {
namespace {

void check(const ParamLayout& layout, std::span<const double> ready_seconds, const LinkModel& link) {
  if (ready_seconds.size() != static_cast<std::size_t>(layout.parameters())) {
    throw Error(ErrorKind::usage,
                text(ready_seconds.size(), " ready times for ", layout.parameters(), " parameters"));
  }
  for (std::size_t i = 0; i < ready_seconds.size(); ++i) {
    if (std::isfinite(ready_seconds[i]) && ready_seconds[i] >= 0) continue;
    throw Error(ErrorKind::usage, text("gradient of ", layout.name(ParamId{static_cast<int>(i)}),
                                       " is ready after ", ready_seconds[i], " s"));
  }
  const bool makes_sense = link.latency_seconds >= 0 && std::isfinite(link.latency_seconds) &&
                           link.bytes_per_second > 0 && std::isfinite(link.bytes_per_second);
  if (!makes_sense) {
    throw Error(ErrorKind::usage,
                text("a link of ", link.latency_seconds, " s and ", link.bytes_per_second, " bytes/s"),
                "latency is >= 0, bandwidth above 0");
  }
}

/// Parameters in the order in which their buckets are to leave, as runs. The parameters of a run follow each
/// other downwards in the layout, so that neighbours may share a bucket.
struct Sequence {
  struct Run {
    int last = 0;  ///< the parameters from `last` down to `first`
    int first = 0;
    double ready_seconds = 0;  ///< when the last of its gradients is ready
  };
  std::vector<Run> runs;

  static Sequence of_layout(const ParamLayout& layout) { return {{{layout.parameters() - 1, 0, 0}}}; }
  /// The order in which backward went. A run ends where the next gradient was ready earlier by more than `by`
  /// seconds.
  static Sequence as_seen(std::span<const double> ready_seconds, double by);
};

Sequence Sequence::as_seen(std::span<const double> ready_seconds, double by) {
  Sequence result;
  for (int i = static_cast<int>(ready_seconds.size()) - 1; i >= 0; --i) {
    const double ready = ready_seconds[static_cast<std::size_t>(i)];
    if (result.runs.empty() || ready < result.runs.back().ready_seconds - by) {
      result.runs.push_back({i, i, ready});
      continue;
    }
    result.runs.back().first = i;
    result.runs.back().ready_seconds = std::max(result.runs.back().ready_seconds, ready);
  }
  std::ranges::stable_sort(result.runs, {}, &Run::ready_seconds);
  return result;
}

std::int64_t end_of(const ParamLayout& layout, int param) {
  return param + 1 < layout.parameters() ? layout.offset(ParamId{param + 1}) : layout.size();
}

/// The dynamic program over one sequence. Place j is the point that has j parameters of the sequence before
/// it. All vectors are by place.
class Search {
 public:
  Search(const ParamLayout& layout, const Sequence& sequence, std::span<const double> ready_seconds,
         const LinkModel& link, std::size_t most_bytes)
      : layout_(layout),
        latency_(link.latency_seconds),
        most_seconds_(static_cast<double>(most_bytes) / link.bytes_per_second),
        ready_{0},
        sent_{0},
        run_begin_{0},
        param_{-1} {
    const double seconds_of_element = static_cast<double>(size_of(layout.dtype())) / link.bytes_per_second;
    for (const Sequence::Run& run : sequence.runs) {
      const std::size_t begin = ready_.size() - 1;
      for (int i = run.last; i >= run.first; --i) {
        const auto elements = static_cast<double>(end_of(layout, i) - layout.offset(ParamId{i}));
        ready_.push_back(std::max(ready_.back(), ready_seconds[static_cast<std::size_t>(i)]));
        sent_.push_back(sent_.back() + elements * seconds_of_element);
        run_begin_.push_back(begin);
        param_.push_back(i);
      }
    }
    find_ends();
  }

  double end_seconds() const { return end_.back(); }

  BucketPlan plan() const {
    std::vector<std::size_t> places = cuts();
    std::ranges::reverse(places);
    std::vector<Bucket> buckets;
    std::size_t place = 0;
    for (const std::size_t cut : places) {
      Bucket bucket{0, end_of(layout_, param_[place + 1]), {}};
      while (place < cut) bucket.params.push_back(ParamId{param_[++place]});
      bucket.begin = layout_.offset(bucket.params.back());
      buckets.push_back(std::move(bucket));
    }
    return {layout_, std::move(buckets)};
  }

 private:
  /// The places where buckets end, from the last bucket to leave to the first. Each bucket arrives as early
  /// as it can, which leaves slack for steps that go otherwise.
  std::vector<std::size_t> cuts() const {
    std::vector<std::size_t> result;
    for (std::size_t end = ready_.size() - 1; end > 0; end = begin_[end]) result.push_back(end);
    return result;
  }

  // The earliest end of place j is the least, over the beginning i of its bucket, of
  //   max(ready[j], end[i]) + latency + sent[j] - sent[i].
  // Ends grow with places. So of all i with end[i] <= ready[j] the last is best. Of the other i the one with
  // the least end[i] - sent[i] is best; a monotone queue keeps it at its front. Of equals the first is taken,
  // for fewer buckets. Every place enters and leaves the queue once, so that all ends together take linear
  // time.
  void find_ends() {
    end_.assign(ready_.size(), 0);
    begin_.assign(ready_.size(), 0);
    std::deque<std::size_t> later;  // the queue: places with end > ready[j], by growing end - sent
    std::size_t next = 0;           // the first place whose end may be after ready[j]
    std::size_t first = 0;  // the first place from which a bucket to j is in one run and not too large
    for (std::size_t j = 1; j < ready_.size(); ++j) {
      while (!later.empty() && cost(later.back()) > cost(j - 1)) later.pop_back();
      later.push_back(j - 1);
      while (next < j && end_[next] <= ready_[j]) ++next;
      first = std::max(first, run_begin_[j]);
      while (first + 1 < j && sent_[j] - sent_[first] > most_seconds_) ++first;
      while (!later.empty() && later.front() < std::max(next, first)) later.pop_front();
      double least = HUGE_VAL;
      if (next > first) {
        begin_[j] = next - 1;
        least = ready_[j] - sent_[next - 1];
      }
      if (!later.empty() && cost(later.front()) < least) {
        begin_[j] = later.front();
        least = cost(later.front());
      }
      end_[j] = least + latency_ + sent_[j];
    }
  }
  double cost(std::size_t place) const { return end_[place] - sent_[place]; }

  const ParamLayout& layout_;
  double latency_;
  double most_seconds_;                 // limit of a bucket of several parameters, without its latency
  std::vector<double> ready_;           // when the last gradient before the place is ready
  std::vector<double> sent_;            // seconds of sending all before the place, without latencies
  std::vector<std::size_t> run_begin_;  // where the run of the parameter before the place begins
  std::vector<int> param_;              // the parameter before the place
  std::vector<double> end_;             // the earliest time at which all before the place can have arrived
  std::vector<std::size_t> begin_;      // where the last bucket of that solution begins
};

}  // namespace

std::string BackwardProfile::to_json(const ParamLayout& layout) const {
  std::ostringstream out;
  out << std::setprecision(17) << R"({"dtype":")" << layout.dtype() << R"(","link":{"latency_seconds":)"
      << link.latency_seconds << R"(,"bytes_per_second":)" << link.bytes_per_second << "},\"parameters\":[";
  for (int i = 0; i < layout.parameters(); ++i) {
    const ParamId id{i};
    out << (i == 0 ? "" : ",") << R"({"name":)" << detail::json_string(layout.name(id)) << R"(,"count":)"
        << layout.count(id) << R"(,"ready_seconds":)" << ready_seconds[index(id)] << '}';
  }
  out << "]}";
  return std::move(out).str();
}

LinkModel LinkModel::fit(std::span<const Sample> samples) {
  // Weighted least squares with weights 1 / seconds^2, which makes the error relative.
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  bool sizes_differ = false;
  for (const auto& [bytes, seconds] : samples) {
    if (!(bytes >= 0 && std::isfinite(bytes) && seconds > 0 && std::isfinite(seconds)))
      throw Error(ErrorKind::usage, text("a link sample of ", bytes, " bytes in ", seconds, " s"));
    sizes_differ = sizes_differ || bytes != samples.front().bytes;
    const double weight = 1 / (seconds * seconds);
    w += weight;
    wx += weight * bytes;
    wy += weight * seconds;
    wxx += weight * bytes * bytes;
    wxy += weight * bytes * seconds;
  }
  if (!sizes_differ)
    throw Error(ErrorKind::usage, text("a link fitted to ", samples.size(), " samples of one size"),
                "measure two sizes or more");
  double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  double latency = (wy - slope * wx) / w;
  if (latency < 0) {
    latency = 0;
    slope = wxy / wxx;
  }
  if (slope <= 0) {  // larger buckets are not slower: all of the time counts as latency
    slope = 1e-15;
    latency = wy / w;
  }
  return {latency, 1 / slope};
}

BucketPlan plan_buckets(const ParamLayout& layout, std::span<const double> ready_seconds,
                        const LinkModel& link, std::size_t most_bytes) {
  check(layout, ready_seconds, link);
  if (most_bytes == 0) throw Error(ErrorKind::usage, "buckets of at most 0 bytes", "allow at least 1");
  const Search by_layout(layout, Sequence::of_layout(layout), ready_seconds, link, most_bytes);
  // A jump of less than a latency is not worth a bucket of its own.
  const Sequence seen = Sequence::as_seen(ready_seconds, link.latency_seconds);
  if (seen.runs.size() == 1) return by_layout.plan();
  const Search as_seen(layout, seen, ready_seconds, link, most_bytes);
  return as_seen.end_seconds() < by_layout.end_seconds() ? as_seen.plan() : by_layout.plan();
}

Forecast forecast(const BucketPlan& plan, std::span<const double> ready_seconds, const LinkModel& link) {
  check(plan.layout(), ready_seconds, link);
  Forecast result;
  double end = 0;
  for (const Bucket& bucket : plan.buckets()) {
    BucketTimes times;
    for (const ParamId id : bucket.params) times.ready = std::max(times.ready, ready_seconds[index(id)]);
    times.begin = std::max(times.ready, end);
    const auto bytes =
        static_cast<double>(bucket.count()) * static_cast<double>(size_of(plan.layout().dtype()));
    end = times.end = times.begin + link.seconds(bytes);
    result.link_busy_seconds += link.seconds(bytes);
    result.backward_seconds = std::max(result.backward_seconds, times.ready);
    result.buckets.push_back(times);
  }
  result.exposed_seconds = end - result.backward_seconds;
  return result;
}

std::ostream& operator<<(std::ostream& out, const Forecast& forecast) {
  const auto flags = out.flags();
  const auto precision = out.precision();
  out << std::fixed << std::setprecision(3);
  for (std::size_t i = 0; i < forecast.buckets.size(); ++i) {
    const BucketTimes& times = forecast.buckets[i];
    out << "bucket " << i << ": ready " << times.ready * 1e3 << " ms, leaves " << times.begin * 1e3
        << " ms, has arrived " << times.end * 1e3 << " ms\n";
  }
  out << "backward " << forecast.backward_seconds * 1e3 << " ms, exposed " << forecast.exposed_seconds * 1e3
      << " ms, link busy " << forecast.link_busy_seconds * 1e3 << " ms\n";
  out.flags(flags);
  out.precision(precision);
  return out;
}

}  // namespace weft
