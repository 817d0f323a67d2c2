#include "metrics/families.hpp"

#include <prometheus/text_serializer.h>

namespace weft::detail {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

MetricType type_of(MetricFamily::Kind kind) {
  switch (kind) {
    case MetricFamily::Kind::counter:
      return MetricType::Counter;
    case MetricFamily::Kind::histogram:
      return MetricType::Histogram;
    case MetricFamily::Kind::gauge:
      break;
  }
  return MetricType::Gauge;
}

ClientMetric sample_of(const MetricFamily& family, const MetricFamily::Sample& sample,
                       const std::string& rank) {
  ClientMetric result;
  result.label.push_back({"rank", rank});
  for (const MetricFamily::Label& label : sample.labels)
    result.label.push_back({std::string(label.name), label.value});
  result.counter.value = sample.value;
  result.gauge.value = sample.value;
  if (family.buckets.empty()) return result;
  result.histogram.sample_sum = sample.value;
  result.histogram.sample_count = family.buckets.back().count;
  for (const MetricFamily::Bucket& bucket : family.buckets)
    result.histogram.bucket.push_back({bucket.count, bucket.upper});
  return result;
}

}  // namespace

std::vector<prometheus::MetricFamily> families_of(const Meter& meter) {
  const std::string rank = std::to_string(meter.rank());
  std::vector<prometheus::MetricFamily> result;
  for (const MetricFamily& family : meter.read()) {
    if (family.samples.empty()) continue;
    prometheus::MetricFamily& one = result.emplace_back();
    one.name = family.name;
    one.help = family.help;
    one.type = type_of(family.kind);
    for (const MetricFamily::Sample& sample : family.samples)
      one.metric.push_back(sample_of(family, sample, rank));
  }
  return result;
}

std::string text_of(const Meter& meter) {
  return prometheus::TextSerializer().Serialize(families_of(meter));
}

}  // namespace weft::detail
