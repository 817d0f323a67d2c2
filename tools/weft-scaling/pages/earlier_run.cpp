#include "weft-scaling/pages/earlier_run.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "core/files/json_node.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using weft::detail::JsonNode;

constexpr int most_ranks = 1 << 24;

Samples samples_from(const JsonNode& run) {
  Samples result{run.member("strategy").string(), {}};
  const JsonNode step = run.member("step_seconds");
  const JsonNode samples = step.member("samples");
  samples.each([&](const JsonNode& one) { result.seconds.push_back(one.positive()); });
  if (result.seconds.size() < fewest_samples)
    samples.refuse(text("has ", result.seconds.size(), " steps; a verdict needs ", fewest_samples));
  return result;
}

void add_run(const JsonNode& run, EarlierRun& earlier) {
  const JsonNode node = run.member("ranks");
  const int ranks = static_cast<int>(node.integer(1, most_ranks));
  if (earlier.strategies.empty()) earlier.ranks = ranks;
  if (ranks != earlier.ranks) node.refuse(text("is ", ranks, "; the runs before have ", earlier.ranks));
  Samples samples = samples_from(run);
  if (std::ranges::find(earlier.strategies, samples.strategy, &Samples::strategy) != earlier.strategies.end())
    run.refuse(text("is another of strategy '", samples.strategy, "'"));
  earlier.strategies.push_back(std::move(samples));
}

}  // namespace

EarlierRun parse_earlier_run(std::string_view content, const std::string& file) {
  const std::string called = text("--compare ", file);
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse({content.data(), content.size()}, error);
  if (error) throw Error(ErrorKind::usage, text(called, ": is no whole JSON: ", error.message()));
  const JsonNode root(called, value);
  const boost::json::object* all = value.if_object();
  if (all != nullptr && all->contains("sweep")) root.refuse("holds a sweep, which trains no strategies");
  EarlierRun result{.file = file,
                    .model = root.member("model").string(),
                    .backend = root.member("backend").string(),
                    .ranks = 0,
                    .strategies = {}};
  const JsonNode runs = root.member("runs");
  runs.each([&](const JsonNode& run) { add_run(run, result); });
  if (result.strategies.empty()) runs.refuse("is empty");
  return result;
}

}  // namespace weft::report
