#include "pipeline/execution/agreement.hpp"

#include <array>

#include "gradient/agreement.hpp"

namespace weft::pipeline::detail {
namespace {

std::string told(const Boundary& one) {
  return text(one.count, " ", one.dtype);
}

}  // namespace

void agree_on_schedule(Communicator comm, const Schedule& schedule, const ExecutorOptions& options,
                       const std::optional<Error>& own) {
  std::string mine = text("has ", schedule.name, " (", std::hex, schedule.hash(), ")",
                          options.sizes_travel ? " and sizes that travel" : "");
  if (own) mine = "cannot make its executor: " + own->problem();
  try {
    weft::detail::agree_on(
        comm, mine,
        {"the devices of a pipeline do not go together",
         "make the same schedule on every rank, or send rank 0's to the others", "StageExecutor"});
  } catch (const Error&) {
    if (!own) throw;
  }
  if (own) throw Error(*own);
}

std::vector<Boundary> agree_on_boundaries(Communicator comm, const Schedule& schedule,
                                          const std::vector<Stage*>& mine) {
  const auto stages = static_cast<std::size_t>(schedule.stages());
  // What a stage takes, and behind all those what it gives; each device fills in its own.
  std::vector<std::int64_t> all(4 * stages);
  const std::vector<int> here = schedule.stages_of(comm.rank());
  for (std::size_t i = 0; i < here.size(); ++i) {
    const std::array both{mine[i]->input(), mine[i]->output()};
    for (std::size_t side = 0; side < 2; ++side) {
      const std::size_t at = 2 * (side * stages + static_cast<std::size_t>(here[i]));
      all[at] = both[side].count;
      all[at + 1] = static_cast<std::int64_t>(both[side].dtype);
    }
  }
  Stream stream;
  comm.all_reduce(View(std::span(all)), ReduceOp::sum, stream).wait();

  const auto boundary = [&](std::size_t side, std::size_t stage) {
    const std::size_t at = 2 * (side * stages + stage);
    return Boundary{static_cast<DataType>(all[at + 1]), all[at]};
  };
  std::vector<Boundary> result{boundary(0, 0)};
  for (std::size_t s = 0; s < stages; ++s) {
    const Boundary gives = boundary(1, s);
    if (s + 1 < stages && (gives != boundary(0, s + 1) || gives.count < 1)) {
      throw Error(ErrorKind::mismatch,
                  text("stage ", s, " (device ", schedule.device_of[s], ") gives ", told(gives), ", stage ",
                       s + 1, " (device ", schedule.device_of[s + 1], ") takes ", told(boundary(0, s + 1))),
                  "Stage::output() of one and input() of the next must be the same, and not nothing",
                  {comm.rank(), "StageExecutor", 0});
    }
    result.push_back(gives);
  }
  if (result.front().count != 0 || result.back().count != 0) {
    throw Error(
        ErrorKind::usage,
        text("stage 0 takes ", told(result.front()), " and the last stage gives ", told(result.back())),
        "nothing crosses the ends of a model: both are 0 elements", {comm.rank(), "StageExecutor", 0});
  }
  return result;
}

}  // namespace weft::pipeline::detail
