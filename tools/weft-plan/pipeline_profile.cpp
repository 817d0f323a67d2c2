#include "pipeline_profile.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <optional>

#include "input.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

namespace json = boost::json;
using pipeline::Nanoseconds;

constexpr double longest_seconds = 1e6;  // nanoseconds of a whole step stay far below 2^63
constexpr double most_bytes = 0x1p50;

/// An object of the file and its path.
class Entry {
 public:
  Entry(const json::value& value, std::string place) : place_(std::move(place)) {
    if (!value.is_object()) throw Error(ErrorKind::usage, text(place_, " is no object"));
    object_ = &value.get_object();
  }

  Nanoseconds seconds(const char* name, bool needed) const {
    return std::llround(1e9 * number(name, needed, longest_seconds).value_or(0));
  }
  std::optional<pipeline::Bytes> bytes(const char* name, bool needed) const {
    const auto value = number(name, needed, most_bytes);
    if (!value) return std::nullopt;
    return std::llround(*value);
  }
  void expect_only(std::initializer_list<std::string_view> names) const {
    for (const auto& [name, value] : *object_) {
      if (std::ranges::find(names, std::string_view(name)) == names.end())
        throw Error(ErrorKind::usage, text(place_, ": '", std::string(name), "' is not known"));
    }
  }

 private:
  std::optional<double> number(const char* name, bool needed, double most) const {
    const json::value* value = object_->if_contains(name);
    if (value == nullptr && !needed) return std::nullopt;
    if (value == nullptr) throw Error(ErrorKind::usage, text(place_, ": '", name, "' is missing"));
    if (!value->is_number()) throw Error(ErrorKind::usage, text(place_, ": '", name, "' is no number"));
    const double result = value->to_number<double>();
    if (!(result >= 0 && result <= most))
      throw Error(ErrorKind::usage, text(place_, ": '", name, "' is ", result),
                  text("0 to ", most, " is possible"));
    return result;
  }

  const json::object* object_;
  std::string place_;
};

const json::array& array_in(const json::object& file, const std::string& path, const char* name) {
  const json::value* value = file.if_contains(name);
  if (value == nullptr || !value->is_array())
    throw Error(ErrorKind::usage, text("'", path, "': '", name, "' is no list"));
  return value->get_array();
}

}  // namespace

pipeline::Problem read_pipeline_profile(const std::string& path) {
  const json::value value = read_json(path);
  const Entry whole(value, text("'", path, "'"));
  whole.expect_only({"devices", "stages", "hops", "memory"});
  const json::object& file = value.get_object();
  pipeline::Problem problem;
  const json::array& stages = array_in(file, path, "stages");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Entry stage(stages[s], text("'", path, "': stage ", s));
    stage.expect_only({"forward", "backward_input", "backward_weight", "activation", "kept_for_weight"});
    const pipeline::Bytes activation = *stage.bytes("activation", true);
    problem.costs.stages.push_back(
        {.forward = stage.seconds("forward", true),
         .backward_input = stage.seconds("backward_input", true),
         .backward_weight = stage.seconds("backward_weight", true),
         .activation = activation,
         .kept_for_weight = stage.bytes("kept_for_weight", false).value_or(activation)});
  }
  problem.devices =
      static_cast<int>(whole.bytes("devices", false).value_or(static_cast<std::int64_t>(stages.size())));
  if (file.contains("hops")) {
    const json::array& hops = array_in(file, path, "hops");
    for (std::size_t h = 0; h < hops.size(); ++h) {
      const Entry hop(hops[h], text("'", path, "': hop ", h));
      hop.expect_only({"latency", "occupancy"});
      problem.costs.hops.push_back(
          {.latency = hop.seconds("latency", false), .occupancy = hop.seconds("occupancy", false)});
    }
  } else if (!stages.empty()) {
    problem.costs.hops.resize(stages.size() - 1);
  }
  if (!file.contains("memory")) return problem;
  for (const json::value& one : array_in(file, path, "memory")) {
    const double bytes = one.is_number() ? one.to_number<double>() : -1;
    if (!(bytes >= 0 && bytes <= most_bytes)) {
      throw Error(ErrorKind::usage, text("'", path, "': 'memory' holds ", json::serialize(one)),
                  text("numbers from 0 to ", most_bytes, " are possible"));
    }
    problem.memory_limit.push_back(std::llround(bytes));
  }
  return problem;
}

}  // namespace weft::plan
