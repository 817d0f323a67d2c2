// What a rank has counted.

#include "c/objects.hpp"

using namespace weft;

namespace weft::c {
namespace {

/// Labels as Prometheus writes them, without braces.
std::string labels_of(const MetricFamily::Sample& sample, const std::string& more = {}) {
  std::string all;
  for (const MetricFamily::Label& one : sample.labels) {
    if (!all.empty()) all += ',';
    all += text(one.name, "=\"");
    for (const char letter : one.value) {
      if (letter == '"' || letter == '\\') all += '\\';
      if (letter == '\n') {
        all += "\\n";
      } else {
        all += letter;
      }
    }
    all += '"';
  }
  if (!all.empty() && !more.empty()) all += ',';
  return all + more;
}

}  // namespace
}  // namespace weft::c

weft_status_t weft_comm_count_step(weft_comm_t comm, double seconds) {
  return c::call("weft_comm_count_step", [&] {
    const Communicator& of = c::comm_of(comm);
    of.meter().step(std::chrono::duration<double>(c::duration_of(seconds, "seconds")).count());
  });
}
weft_status_t weft_comm_metrics(weft_comm_t comm,
                                void (*sample)(void* context, const char* name, const char* labels,
                                               double value),
                                void* context) {
  return c::call("weft_comm_metrics", [&] {
    const Meter meter = c::comm_of(comm).meter();
    if (sample == nullptr) c::refuse_null("sample");
    for (const MetricFamily& family : meter.read()) {
      const std::string name(family.name);
      for (const MetricFamily::Sample& one : family.samples) {
        if (family.kind != MetricFamily::Kind::histogram) {
          sample(context, name.c_str(), c::labels_of(one).c_str(), one.value);
          continue;
        }
        for (const MetricFamily::Bucket& bucket : family.buckets) {
          const bool is_last = &bucket == &family.buckets.back();
          const std::string upper = is_last ? "le=\"+Inf\"" : text("le=\"", bucket.upper, '"');
          sample(context, (name + "_bucket").c_str(), c::labels_of(one, upper).c_str(),
                 static_cast<double>(bucket.count));
        }
        sample(context, (name + "_sum").c_str(), c::labels_of(one).c_str(), one.value);
        if (!family.buckets.empty())
          sample(context, (name + "_count").c_str(), c::labels_of(one).c_str(),
                 static_cast<double>(family.buckets.back().count));
      }
    }
  });
}
