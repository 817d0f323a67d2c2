#include "weft/pipeline/verify.hpp"

#include "pipeline/verify/marks.hpp"

namespace weft::pipeline {
namespace {

using namespace detail;

std::optional<Fault> whole(const std::string& what) {
  return Fault{.what = what};
}

/// Schedule and problem speak of the same devices, stages and microbatches.
std::optional<Fault> check_shape(const Schedule& schedule, const Problem& problem) {
  if (schedule.devices() != problem.devices)
    return whole(text("rows for ", schedule.devices(), " devices, and a problem of ", problem.devices));
  if (schedule.stages() != problem.stages())
    return whole(text("a placement of ", schedule.stages(), " stages, and costs of ", problem.stages()));
  if (schedule.microbatches != problem.microbatches || schedule.microbatches < 1)
    return whole(text(schedule.microbatches, " microbatches, and a problem of ", problem.microbatches));
  if (!problem.memory_limit.empty() && problem.memory_limit.size() != schedule.rows.size())
    return whole(text(problem.memory_limit.size(), " memory limits for ", schedule.devices(), " devices"));
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int device = device_of(schedule, stage);
    if (device < 0 || device >= schedule.devices())
      return whole(text("stage ", stage, " is placed on device ", device, " of ", schedule.devices()));
  }
  return {};
}

}  // namespace

std::optional<Fault> find_fault(const Schedule& schedule, const Problem& problem) {
  if (auto fault = check_shape(schedule, problem)) return fault;
  bool has_transfers = false;
  {
    Marks marks(schedule);
    if (auto fault = survey(schedule, marks)) return fault;
    if (auto fault = check_rows(schedule, problem, marks)) return fault;
    has_transfers = (marks.types & any_transfer) != 0;
  }
  if (has_transfers) {
    if (auto fault = check_pairs(schedule)) return fault;
  }
  return check_progress(schedule, has_transfers);
}

void verify(const Schedule& schedule, const Problem& problem) {
  if (const auto fault = find_fault(schedule, problem))
    throw Error(ErrorKind::usage, text("schedule '", schedule.name, "': ", fault->what),
                "it cannot be executed as it is; correct the entry, or draw it up anew");
}

std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << fault.what;
}

}  // namespace weft::pipeline
