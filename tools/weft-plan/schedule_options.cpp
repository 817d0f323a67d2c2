// Options of weft-plan schedule.

#include "schedule_options.hpp"

#include <cmath>
#include <sstream>

#include "common/command_line.hpp"
#include "common/schedule_chunks.hpp"
#include "core/memory/host_memory.hpp"
#include "input.hpp"
#include "pipeline_profile.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::plan {
namespace {

namespace po = boost::program_options;

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
       "(makespan)")  //
      ("effort", word("X"),
       "how long auto searches unless it meets the bound, as a multiple of the usual (1), which takes 0.05 "
       "to 1 s "
       "or more where the problem is larger")                                                         //
      ("devices", word("P"), "devices of the pipeline (8)")                                           //
      ("stages", word("P"), "another name of --devices")                                              //
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
      ("quiet,q", "no progress and no drawing: the figures alone");
  tool::add_common(result);
  return result;
}

int whole(const Given& given, const char* option, int otherwise, int most) {
  const auto word = given.word(option);
  return word ? static_cast<int>(number(option, *word, 1, most)) : otherwise;
}

/// In parts of a unit; `otherwise` units where it is not given. @param least 0 if nothing is a time, too
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

/// For a schedule that is made; one that is read from a file is as long as the file.
void expect_memory(int devices, int chunks, int microbatches) {
  // Bytes for what one device does with a microbatch: its actions and their times.
  constexpr std::size_t least_of_each = 64;
  const std::size_t needed = static_cast<std::size_t>(devices) * static_cast<std::size_t>(chunks) *
                             static_cast<std::size_t>(microbatches) * least_of_each;
  const auto left = detail::memory_left();
  if (left && needed > *left)
    throw Error(ErrorKind::usage,
                text("a schedule of --devices ", devices, ", --chunks ", chunks, " and --microbatches ",
                     microbatches, " takes ", needed, " bytes of memory or more, and ", *left, " are left"),
                "plan fewer microbatches: the bubble's share is that of a step's begin and end");
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
  const po::variables_map values =
      tool::parse(arguments, schedule_description(), "weft-plan schedule --help");
  const Given given(values);
  command.help = given("help");
  if (command.help) return command;
  expect_alone(given, "schedule", {"name", "effort", "devices", "stages", "chunks", "microbatches"});
  expect_alone(given, "profile",
               {"devices", "stages", "chunks", "forward", "backward-input", "backward-weight", "comm",
                "memory", "release"});
  expect_alone(given, "devices", {"stages"});
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
    const int chunks = whole(given, "chunks", 1, 64);
    if (!command.file) tool::expect_chunks(command.name, chunks);
    const int devices = whole(given, given("stages") ? "stages" : "devices", 8, 8192);
    if (devices == 1 && !command.file) tool::refuse_ignored(values, {"comm"}, "one device sends nothing");
    expect_memory(devices, chunks, microbatches);
    command.problem = uniform(command, devices, chunks, microbatches);
  }
  command.quiet = given("quiet");
  if (command.quiet) tool::refuse_ignored(values, {"width"}, "--quiet draws nothing");
  command.releases = given("release");
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
      << "\nExample:\n  weft-plan schedule --devices 8 --microbatches 8 --chunks 2 --memory 8\n"
         "  weft-plan schedule --name 1f1b --devices 4 --microbatches 8 --backward-weight 0.8 --comm 0.1\n";
  return std::move(out).str();
}

}  // namespace weft::plan
