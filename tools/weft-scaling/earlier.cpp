#include "earlier.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "contestant.hpp"
#include "strategy.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

namespace json = boost::json;

/// Access to the file by path, so that an error names it: runs[1].step_seconds.median.
class Place {
 public:
  Place(const std::string& file, const json::value& value, std::string path)
      : file_(file), value_(value), path_(std::move(path)) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::usage,
                text("--compare ", file_, ": ", path_.empty() ? "the file" : "'" + path_ + "'", " ", why),
                "give a file that --json of weft-scaling wrote for strategies");
  }

  bool has(const char* key) const { return value_.is_object() && value_.get_object().contains(key); }

  Place at(const char* key) const {
    if (!value_.is_object()) refuse("is no object");
    if (!has(key)) refuse(text("has no '", key, "'"));
    return {file_, value_.get_object().at(key), path_.empty() ? key : text(path_, ".", key)};
  }

  std::vector<Place> elements() const {
    if (!value_.is_array() || value_.get_array().empty()) refuse("is no list, or an empty one");
    std::vector<Place> result;
    for (const json::value& one : value_.get_array())
      result.push_back({file_, one, text(path_, "[", result.size(), "]")});
    return result;
  }

  std::string words() const {
    if (!value_.is_string()) refuse("is no string");
    return std::string(value_.get_string());
  }

  double seconds() const {
    const double value = value_.is_number() ? value_.to_number<double>() : 0;
    if (!(value > 0) || std::isinf(value)) refuse(text("is no time: ", json::serialize(value_)));
    return value;
  }

  int count() const {
    json::error_code error;
    const int value = value_.is_number() ? value_.to_number<int>(error) : 0;
    if (error || value < 1) refuse(text("is no number of 1 or more: ", json::serialize(value_)));
    return value;
  }

 private:
  const std::string& file_;
  const json::value& value_;
  std::string path_;
};

json::value parsed_json(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream content;
  if (!(in && content << in.rdbuf()))
    throw Error(ErrorKind::usage, text("--compare ", file, ": cannot read it"));
  json::error_code error;
  json::value result = json::parse(content.str(), error);
  if (error) throw Error(ErrorKind::usage, text("--compare ", file, ": it is no JSON: ", error.message()));
  return result;
}

report::Samples samples_of(const Place& run) {
  const Place step = run.at("step_seconds");
  report::Samples result{run.at("strategy").words(), {}};
  for (const Place& sample : step.at("samples").elements()) result.seconds.push_back(sample.seconds());
  if (result.seconds.size() < report::fewest_samples) {
    step.at("samples").refuse(
        text("has ", result.seconds.size(), " steps; a verdict needs ", report::fewest_samples, " or more"));
  }
  return result;
}

/// "host" of "host (shared memory)": where ranks compute. The transport may differ: it may be what is
/// compared.
std::string device_of(const std::string& backend) {
  return backend.substr(0, backend.find(' '));
}

void same(const std::string& file, const char* what, const auto& before, const auto& now) {
  if (before == now) return;
  throw Error(ErrorKind::usage,
              text("--compare ", file, ": ", what, " ", before, " there, ", now, " in this run"),
              "compare runs of the same model, ranks and device");
}

}  // namespace

EarlierRun read_earlier(const std::string& file) {
  const json::value content = parsed_json(file);
  const Place all(file, content, "");
  if (all.has("sweep")) all.refuse("holds a sweep, which trains no strategies");
  EarlierRun result{.file = file,
                    .setting = {all.at("model").words(), all.at("backend").words()},
                    .ranks = 0,
                    .strategies = {}};
  for (const Place& run : all.at("runs").elements()) {
    const int ranks = run.at("ranks").count();
    if (result.ranks != 0 && ranks != result.ranks)
      run.refuse(text("has ", ranks, " ranks and others ", result.ranks));
    result.ranks = ranks;
    report::Samples samples = samples_of(run);
    if (std::ranges::count(result.strategies, samples.strategy, &report::Samples::strategy) != 0)
      run.refuse(text("is another of strategy '", samples.strategy, "'"));
    result.strategies.push_back(std::move(samples));
  }
  return result;
}

void check_comparable(const EarlierRun& earlier, const Options& options, const Communicator& comm) {
  const std::string& file = earlier.file;
  same(file, "the model is", earlier.setting.model, options.model);
  same(file, "the number of ranks is", earlier.ranks, comm.size());
  same(file, "the device is", device_of(earlier.setting.backend), device_of(comm.backend()));
  const std::int64_t counting = options.steps - first_counted(options);
  if (counting < static_cast<std::int64_t>(report::fewest_samples)) {
    throw Error(ErrorKind::usage,
                text("--compare with --steps ", options.steps, ": ", counting,
                     " steps count, and a verdict needs ", report::fewest_samples, " or more"));
  }
}

report::Comparison compare(const EarlierRun& earlier, const Setting& setting, const std::vector<Run>& runs) {
  std::vector<report::Samples> now;
  for (const Run& run : runs) now.push_back({run.strategy, run.samples});
  const std::string& backend = earlier.setting.backend;
  return report::compare(backend == setting.backend ? earlier.file : text(earlier.file, " on ", backend),
                         earlier.strategies, now);
}

}  // namespace weft::scaling
