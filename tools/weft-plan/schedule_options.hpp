#pragma once
// Options of weft-plan schedule: a pipeline given by its costs, or by a file of costs.

#include <optional>
#include <string>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::plan {

/// The units of the user: times and sizes are multiples of these.
struct MeasuredIn {
  double nanoseconds = 1;
  double bytes = 1;
  std::string time = " s";
  std::string memory = "bytes";
};

struct ScheduleCommand {
  std::string name = "auto";
  std::optional<std::string> file;  ///< instead of a name: a schedule, as text or PyTorch's CSV
  pipeline::Objective objective = pipeline::Objective::makespan;
  double effort = 1;  ///< of the search, as SynthesisOptions has it
  pipeline::Problem problem;
  pipeline::StageCosts device;  ///< costs of a whole device, if no profile is given
  pipeline::Hop hop;
  std::optional<pipeline::Bytes> memory;
  bool has_profile = false;
  bool releases = false;  ///< --release is given
  MeasuredIn unit;
  int width = 160;
  std::optional<std::string> json, text, csv, svg, trace, compare;
  bool quiet = false;
  bool help = false;
};

/// @throws Error (usage) naming the argument, its value and what is allowed
ScheduleCommand parse_schedule_command(const std::vector<std::string>& arguments);
std::string schedule_help();
/// The same costs for a schedule that has its own devices, chunks and microbatches.
pipeline::Problem problem_for(const ScheduleCommand& command, const pipeline::Schedule& schedule);

}  // namespace weft::plan
