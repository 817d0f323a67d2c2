#include "buckets.hpp"

#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <ostream>

#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

constexpr std::array<std::size_t, 4> fixed_mib{1, 5, 25, 100};

LinkModel link_of(const Options& options, const Profile& profile) {
  return {options.latency_seconds.value_or(profile.backward.link.latency_seconds),
          options.bytes_per_second.value_or(profile.backward.link.bytes_per_second)};
}

BucketPlan plan_of(const Options& options, const Profile& profile) {
  if (options.bucket_bytes) return plan_buckets(profile.layout, *options.bucket_bytes);
  return plan_buckets(profile.layout, profile.backward.ready_seconds, link_of(options, profile));
}

double exposed(const Options& options, const Profile& profile, std::size_t bucket_bytes) {
  return forecast(plan_buckets(profile.layout, bucket_bytes), profile.backward.ready_seconds,
                  link_of(options, profile))
      .exposed_seconds;
}

}  // namespace

void explain_buckets(const Options& options, const Profile& profile, std::ostream& out) {
  const LinkModel link = link_of(options, profile);
  const BucketPlan plan = plan_of(options, profile);
  out << text(profile.layout.parameters(), " parameters, ", profile.layout.size_bytes(),
              " bytes; a bucket takes ", link.latency_seconds * 1e6, " us and its bytes at ",
              link.bytes_per_second * 1e-9, " GB/s\n\n")
      << plan << '\n'
      << forecast(plan, profile.backward.ready_seconds, link) << "\nbuckets of a fixed size would expose:";
  for (const std::size_t mib : fixed_mib) {
    char words[64];
    std::snprintf(words, sizeof(words), "%s %zu MiB %.3f ms", mib == fixed_mib.front() ? "" : ",", mib,
                  exposed(options, profile, mib << 20) * 1e3);
    out << words;
  }
  out << '\n';
}

std::string buckets_json(const Options& options, const Profile& profile) {
  namespace json = boost::json;
  const LinkModel link = link_of(options, profile);
  const BucketPlan plan = plan_of(options, profile);
  const Forecast seen = forecast(plan, profile.backward.ready_seconds, link);
  json::array buckets;
  for (std::size_t i = 0; i < plan.buckets().size(); ++i) {
    const Bucket& bucket = plan.buckets()[i];
    buckets.push_back({{"begin", bucket.begin},
                       {"end", bucket.end},
                       {"parameters", bucket.params.size()},
                       {"ready", seen.buckets[i].ready},
                       {"leaves", seen.buckets[i].begin},
                       {"arrives", seen.buckets[i].end}});
  }
  json::array fixed;
  for (const std::size_t mib : fixed_mib)
    fixed.push_back({{"bucket_bytes", mib << 20}, {"exposed_seconds", exposed(options, profile, mib << 20)}});
  return json::serialize(json::object{
             {"link",
              {{"latency_seconds", link.latency_seconds}, {"bytes_per_second", link.bytes_per_second}}},
             {"backward_seconds", seen.backward_seconds},
             {"exposed_seconds", seen.exposed_seconds},
             {"link_busy_seconds", seen.link_busy_seconds},
             {"buckets", std::move(buckets)},
             {"fixed", std::move(fixed)}}) +
         "\n";
}

}  // namespace weft::plan
