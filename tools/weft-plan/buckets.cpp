// Explains the buckets that gradients are sent in, from a trace of weft-scaling: when each is ready, leaves
// and arrives, what that exposes, and what buckets of fixed sizes would expose.

#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "bucket_profile.hpp"
#include "commands.hpp"
#include "common/command_line.hpp"
#include "common/outputs.hpp"
#include "input.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

namespace json = boost::json;
namespace po = boost::program_options;

struct Options {
  std::string file;
  std::optional<double> latency_seconds;   // instead of the measured one
  std::optional<double> bytes_per_second;  // instead of the measured one
  std::optional<std::size_t> bucket_bytes;
  std::optional<std::string> json;
  bool help = false;
};

po::options_description buckets_description() {
  po::options_description result("Options", 110);
  result.add_options()  //
      ("latency-us", po::value<double>()->value_name("US"),
       "cost of a bucket of any size, instead of the measured one")  //
      ("gbytes-per-second", po::value<double>()->value_name("RATE"),
       "gradient bytes that are reduced in a second, instead of the measured rate")  //
      ("bucket-bytes", po::value<std::size_t>()->value_name("N"),
       "explain buckets of this size instead of the planned ones")  //
      ("json", po::value<std::string>()->value_name("FILE"),
       "write the figures to FILE, - for standard output");
  tool::add_common(result);
  return result;
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<std::string> rest = arguments;
  const bool has_word = !rest.empty() && !rest.front().starts_with('-');
  const std::string command = has_word ? rest.front() : "";
  if (has_word) rest.erase(rest.begin());
  if (!rest.empty() && !rest.front().starts_with('-')) {
    options.file = rest.front();
    rest.erase(rest.begin());
  }
  const po::variables_map values = tool::parse(rest, buckets_description(), "weft-plan --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (command != "buckets") {
    throw Error(
        ErrorKind::usage,
        command.empty() ? "nothing to plan is named" : text("'", command, "' is nothing to plan"),
        "allowed are buckets, checkpoint, memory, scale and schedule: weft-plan buckets TRACE, weft-plan "
        "checkpoint PATH, "
        "weft-plan memory, weft-plan scale, weft-plan schedule");
  }
  if (options.file.empty()) {
    throw Error(ErrorKind::usage, "no trace is named",
                "weft-scaling --trace FILE writes one: weft-plan buckets FILE");
  }
  const auto number = [&](const char* name, double least) -> std::optional<double> {
    if (values.count(name) == 0) return std::nullopt;
    const double value = values[name].as<double>();
    if (!std::isfinite(value) || value < least)
      throw Error(ErrorKind::usage, text("--", name, " ", value, " is not a number of ", least, " or more"));
    return value;
  };
  if (const auto latency = number("latency-us", 0)) options.latency_seconds = *latency * 1e-6;
  if (const auto rate = number("gbytes-per-second", 1e-6)) options.bytes_per_second = *rate * 1e9;
  if (values.count("bucket-bytes") != 0) options.bucket_bytes = values["bucket-bytes"].as<std::size_t>();
  if (options.bucket_bytes == 0)
    throw Error(ErrorKind::usage, "--bucket-bytes 0 is not a number of 1 or more");
  if (values.count("json") != 0) options.json = values["json"].as<std::string>();
  return options;
}

std::string help() {
  std::ostringstream out;
  out << "weft-plan buckets TRACE [options]\n"
         "weft-plan checkpoint PATH [options]       weft-plan checkpoint --help says more\n"
         "weft-plan memory [options]                weft-plan memory --help says more\n"
         "weft-plan scale [options]                 weft-plan scale --help says more\n"
         "weft-plan schedule [options]              weft-plan schedule --help says more\n\n"
         "Explains the gradient buckets of a training: when each is ready, leaves and arrives, what that "
         "exposes,\n"
         "and what buckets of fixed sizes would expose. TRACE is the file of weft-scaling --trace, from a "
         "run with\n"
         "planned buckets: without --bucket-bytes, and with a thread for communication.\n\n"
      << buckets_description()
      << "\nExamples:\n"
         "  WEFT_PROGRESS=thread mpirun -n 2 weft-scaling --trace run.json && weft-plan buckets run.json\n"
         "  weft-plan buckets run.json --gbytes-per-second 12 --latency-us 20      on another network\n\n"
         "Exit status: 0 done, 42 wrong usage or input, 70 a fault of the system.\n";
  return std::move(out).str();
}

constexpr std::array<std::size_t, 4> fixed_mib{1, 5, 25, 100};

LinkModel link_of(const Options& options, const BucketProfile& profile) {
  return {options.latency_seconds.value_or(profile.backward.link.latency_seconds),
          options.bytes_per_second.value_or(profile.backward.link.bytes_per_second)};
}

BucketPlan plan_of(const Options& options, const BucketProfile& profile) {
  if (options.bucket_bytes) return plan_buckets(profile.layout, *options.bucket_bytes);
  return plan_buckets(profile.layout, profile.backward.ready_seconds, link_of(options, profile));
}

double exposed(const Options& options, const BucketProfile& profile, std::size_t bucket_bytes) {
  return forecast(plan_buckets(profile.layout, bucket_bytes), profile.backward.ready_seconds,
                  link_of(options, profile))
      .exposed_seconds;
}

/// Prints the plan and what it exposes, beside buckets of fixed sizes.
void explain_buckets(const Options& options, const BucketProfile& profile, std::ostream& out) {
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

std::string buckets_json(const Options& options, const BucketProfile& profile) {
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

}  // namespace

int run_buckets(const std::vector<std::string>& arguments) {
  const Options options = parse(arguments);
  if (options.help) {
    std::cout << help();
    return 0;
  }
  tool::Outputs outputs("weft-plan");
  outputs.open("--json", options.json);
  const BucketProfile profile = parse_bucket_profile(read_text(options.file), options.file);
  explain_buckets(options, profile, outputs.people());
  outputs.write({{"--json", buckets_json(options, profile)}});
  return 0;
}

}  // namespace weft::plan
