// Options of weft-plan schedule, and the file of costs that one of them names.

#include "schedule_options.hpp"

#include <boost/json.hpp>
#include <cmath>
#include <sstream>

#include "common/command_line.hpp"
#include "input.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::plan {
namespace {

namespace po = boost::program_options;
namespace json = boost::json;
using pipeline::Nanoseconds;

constexpr double longest_seconds = 1e6;  // nanoseconds of a whole step stay far below 2^63

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
    const auto value = number(name, needed, 0x1p50);
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

/// Reads the costs of a pipeline from a file:
///
///   {"devices": 4,
///    "stages": [{"forward": 0.011, "backward_input": 0.012, "backward_weight": 0.009,
///                "activation": 52428800, "kept_for_weight": 41943040}, ...],
///    "hops": [{"latency": 0.00002, "occupancy": 0.0003}, ...],
///    "memory": [8589934592, ...]}
///
/// Seconds and bytes, of one microbatch; a hop lies between a stage and the next. Hops may be left out (no
/// time between stages), memory too (no limit), and kept_for_weight (the whole activation). The result has no
/// microbatches. @throws Error (usage, system) naming the file, the place in it and the problem
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
    if (!one.is_number())
      throw Error(ErrorKind::usage, text("'", path, "': 'memory' holds what is no number"));
    problem.memory_limit.push_back(std::llround(one.to_number<double>()));
  }
  return problem;
}

/// Divided by all numbers of chunks up to 16, so that a chunk's part of a whole number is one.
constexpr double parts_of_unit = 720720;

po::options_description schedule_description() {
  std::string names = "auto";
  for (const auto& one : pipeline::named_schedules()) names += ", " + std::string(one.name);
  po::options_description result("Options", 110);
  const auto word = [](const char* name) { return po::value<std::string>()->value_name(name); };
  result.add_options()                                                                           //
      ("name", word("NAME"), ("the schedule (auto, the best that is found): " + names).c_str())  //
      ("schedule", word("FILE"),
       "instead: a schedule from FILE (weft's text or PyTorch's CSV), which is verified")  //
      ("objective", word("NAME"),
       "makespan: a step ends for all devices together; span: each device may begin the next step by itself "
       "(makespan)")                                                                                  //
      ("effort", word("X"),
       "how long auto searches unless it meets the bound, as a multiple of the usual (1), which takes 0.05 to 1 s "
       "or more where the problem is larger")                                                         //
      ("stages", word("P"), "devices of the pipeline (8)")                                            //
      ("microbatches", word("M"), "microbatches of a step (32)")                                      //
      ("chunks", word("V"), "stages on each device; auto may use fewer (1)")                          //
      ("forward", word("F"), "forward of one microbatch on a whole device, in any unit of time (1)")  //
      ("backward-input", word("B"), "gradient of the input, in the same unit (1)")                    //
      ("backward-weight", word("W"), "gradient of the weights, in the same unit (1)")                 //
      ("comm", word("C"), "transfer from a stage to the next, in the same unit (0)")                  //
      ("memory", word("CAP"), "memory of a device, in activations of one microbatch (no limit)")      //
      ("release", word("R"),
       "share of an activation that is freed when B ends, 0 to 1; the rest at W's end (0)")  //
      ("profile", word("FILE"),
       "instead: seconds and bytes of every stage, in the format of docs/pipeline.md")  //
      ("width", word("N"), "width of the drawing in characters (160)")                  //
      ("text", word("FILE"), "write the schedule to FILE, - for standard output")       //
      ("csv", word("FILE"), "the same as PyTorch's CSV (compute_only)")                 //
      ("json", word("FILE"), "write the figures to FILE, - for standard output")        //
      ("svg", word("FILE"), "draw the schedule over time, for a browser")               //
      ("trace", word("FILE"),
       "write the predicted times for ui.perfetto.dev; a unit is 1 ms there, without a profile")  //
      ("compare", word("FILE"),
       "write a page with all named schedules that fit the memory, drawn beside it")  //
      ("help,h", "this text");
  return result;
}

int whole(const Given& given, const char* option, int otherwise, int most) {
  const auto word = given.word(option);
  return word ? static_cast<int>(number(option, *word, 1, most)) : otherwise;
}

/// In parts of a unit; `otherwise` units where it is not given. @param least 0 where nothing is a time, too
std::int64_t time_of(const Given& given, const char* option, double otherwise, double least) {
  const auto word = given.word(option);
  const double units =
      word ? real(option, *word, least, 1e6, text("a time from ", least, " to 1000000")) : otherwise;
  return std::llround(parts_of_unit * units);
}

void take_device(const Given& given, ScheduleCommand& command) {
  const auto released = given.word("release"), memory = given.word("memory");
  const double freed = released ? share("release", *released) : 0;
  command.device = {.forward = time_of(given, "forward", 1, 1e-3),
                    .backward_input = time_of(given, "backward-input", 1, 1e-3),
                    .backward_weight = time_of(given, "backward-weight", 1, 1e-3),
                    .activation = static_cast<pipeline::Bytes>(parts_of_unit),
                    .kept_for_weight = std::llround(parts_of_unit * (1 - freed))};
  command.hop.latency = time_of(given, "comm", 0, 0);
  if (memory)
    command.memory =
        std::llround(parts_of_unit * real("memory", *memory, 0, 1e9, "a number of microbatches, 0 or more"));
  command.unit = {parts_of_unit, parts_of_unit, "", "microbatches"};
}

pipeline::Problem uniform(const ScheduleCommand& command, int devices, int chunks, int microbatches) {
  pipeline::Problem problem{.devices = devices,
                            .microbatches = microbatches,
                            .costs = pipeline::uniform_costs(devices, chunks, command.device, command.hop)};
  if (command.memory) problem.memory_limit.assign(static_cast<std::size_t>(devices), *command.memory);
  return problem;
}

pipeline::Objective objective_named(const std::string& word) {
  if (word == "makespan") return pipeline::Objective::makespan;
  if (word == "span") return pipeline::Objective::span;
  refuse("objective", word, "makespan or span");
}

void expect_alone(const Given& given, const char* alone, std::initializer_list<const char*> others) {
  if (!given(alone)) return;
  for (const char* other : others) {
    if (given(other))
      throw Error(ErrorKind::usage, text("--", other, " beside --", alone), "give one of them");
  }
}

}  // namespace

ScheduleCommand parse_schedule_command(const std::vector<std::string>& arguments) {
  ScheduleCommand command;
  const po::variables_map values = tool::parse(arguments, schedule_description(), "weft-plan schedule --help");
  const Given given(values);
  command.help = given("help");
  if (command.help) return command;
  expect_alone(given, "schedule", {"name", "effort", "stages", "chunks", "microbatches"});
  expect_alone(
      given, "profile",
      {"stages", "chunks", "forward", "backward-input", "backward-weight", "comm", "memory", "release"});
  command.name = given.word("name").value_or("auto");
  if (command.name != "auto") expect_alone(given, "name", {"effort"});
  command.file = given.word("schedule");
  given("objective", [&](const std::string& word) { command.objective = objective_named(word); });
  given("effort", [&](const std::string& word) {
    command.effort = real("effort", word, 1e-3, 1e4, "a number from 0.001 to 10000");
  });
  const int microbatches = whole(given, "microbatches", 32, 1 << 20);
  const auto profile = given.word("profile");
  command.has_profile = profile.has_value();
  if (profile) {
    command.problem = read_pipeline_profile(*profile);
    command.problem.microbatches = microbatches;
    command.unit.nanoseconds = 1e9;
  } else {
    take_device(given, command);
    command.problem =
        uniform(command, whole(given, "stages", 8, 8192), whole(given, "chunks", 1, 64), microbatches);
  }
  command.width = whole(given, "width", 160, 100000);
  command.text = given.word("text");
  command.csv = given.word("csv");
  command.json = given.word("json");
  command.svg = given.word("svg");
  command.trace = given.word("trace");
  command.compare = given.word("compare");
  return command;
}

pipeline::Problem problem_for(const ScheduleCommand& command, const pipeline::Schedule& schedule) {
  if (!command.has_profile)
    return uniform(command, schedule.devices(), schedule.stages() / schedule.devices(),
                   schedule.microbatches);
  pipeline::Problem problem = command.problem;
  if (problem.devices != schedule.devices() || problem.stages() != schedule.stages())
    throw Error(ErrorKind::usage,
                text("the schedule has ", schedule.stages(), " stages on ", schedule.devices(),
                     " devices, the profile ", problem.stages(), " on ", problem.devices),
                "give the profile of this pipeline");
  problem.microbatches = schedule.microbatches;
  return problem;
}

std::string schedule_help() {
  std::ostringstream out;
  out << "weft-plan schedule [options]\n\n"
         "A schedule for a pipeline, drawn, verified and with its time predicted; by default the best that "
         "is\n"
         "found, with a proof of how much shorter any other can be at most (docs/pipeline.md).\n\n"
      << schedule_description()
      << "\nExample:\n  weft-plan schedule --stages 8 --microbatches 8 --chunks 2 --memory 8\n"
         "  weft-plan schedule --name 1f1b --stages 4 --microbatches 8 --backward-weight 0.8 --comm 0.1\n";
  return std::move(out).str();
}

}  // namespace weft::plan
