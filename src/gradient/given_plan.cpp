#include "gradient/given_plan.hpp"

#include <algorithm>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

std::string range(const Bucket& bucket) {
  return text("[", bucket.begin, ", ", bucket.end, ")");
}

[[noreturn]] void refuse(const std::string& problem, const std::string& advice) {
  throw Error(ErrorKind::usage, "ReducerOptions::plan: " + problem, advice);
}

std::vector<ParamId> within(const ParamLayout& layout, const Bucket& bucket) {
  std::vector<ParamId> ids;
  for (int i = 0; i < layout.parameters(); ++i) {
    const ParamId id{i};
    if (layout.offset(id) < bucket.end && layout.offset(id) + layout.count(id) > bucket.begin)
      ids.push_back(id);
  }
  return ids;
}

}  // namespace

void expect_complete(const BucketPlan& plan, const ParamLayout& layout) {
  if (!plan.layout().has_parameters_of(layout))
    refuse(text("its ", plan.layout().parameters(), " parameters of ", plan.layout().dtype(),
                " are not the reducer's ", layout.parameters(), " of ", layout.dtype()),
           "plan buckets of the reducer's own layout");
  std::vector<Bucket> buckets = plan.buckets();
  std::ranges::sort(buckets, {}, &Bucket::begin);
  std::int64_t covered = 0;
  for (const Bucket& bucket : buckets) {
    if (bucket.begin != covered || bucket.end <= bucket.begin)
      refuse(text("bucket ", range(bucket), " follows on element ", covered),
             "every element of the flat space is in one bucket");
    covered = bucket.end;
    std::vector<ParamId> listed = bucket.params;
    std::ranges::sort(listed);
    if (listed != within(plan.layout(), bucket))
      refuse(text("bucket ", range(bucket), " does not list the parameters that lie in it"),
             "plan_whole_buckets(), plan_buckets() and aligned() do");
  }
  if (covered < plan.layout().size())
    refuse(text("buckets end at element ", covered, " of ", plan.layout().size()),
           "every element of the flat space is in one bucket");
}

void expect_blocks(const BucketPlan& plan, std::int64_t unit) {
  for (const Bucket& bucket : plan.buckets()) {
    const bool ends = bucket.end % unit == 0 || bucket.end == plan.layout().size();
    if (bucket.begin % unit != 0 || !ends)
      refuse(text("bucket ", range(bucket), " for a hook that takes multiples of ", unit, " elements"),
             text("plan with plan_whole_buckets() and a unit of ", unit, ", or with aligned()"));
  }
}

void expect_parts(const BucketPlan& plan, std::int64_t unit, int ranks) {
  for (const Bucket& bucket : plan.buckets()) {
    if (bucket.begin % unit == 0 && bucket.count() % (unit * ranks) == 0) continue;
    refuse(text("bucket ", range(bucket), " for ", ranks, " ranks with a part each of multiples of ", unit,
                " elements"),
           text("plan with plan_whole_buckets() and a unit of ", unit * ranks));
  }
}

void expect_whole_parameters(const BucketPlan& plan) {
  std::vector<bool> seen(static_cast<std::size_t>(plan.layout().parameters()));
  for (const Bucket& bucket : plan.buckets()) {
    for (const ParamId id : bucket.params) {
      if (seen[index(id)])
        refuse(text(plan.layout().name(id), " lies in two buckets, which windows cannot hold apart"),
               "plan with plan_whole_buckets()");
      seen[index(id)] = true;
    }
  }
}

}  // namespace weft::detail
