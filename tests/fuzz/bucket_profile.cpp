// What a trace tells of a backward pass, and the buckets that are planned from it.

#include "bucket_profile.hpp"

#include "fuzz/expect_refused.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  test::taken_or_refused([&] {
    const plan::BucketProfile profile = plan::parse_bucket_profile(test::as_text(data, size), "run.json");
    const auto& ready = profile.backward.ready_seconds;
    const BucketPlan plan = plan_buckets(profile.layout, ready, profile.backward.link);
    test::expect(!plan.buckets().empty() && plan.buckets().back().end <= profile.layout.size(),
                 "buckets lie in the layout");
    (void)forecast(plan, ready, profile.backward.link);
  });
  return 0;
}
