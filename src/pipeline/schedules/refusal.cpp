#include "refusal.hpp"

#include "weft/core/error.hpp"

namespace weft::pipeline::detail {

std::optional<Refusal> unless_chunks(std::string_view name, const Problem& problem, int least, int most) {
  const int chunks = problem.chunks();
  if (chunks >= least && chunks <= most) return std::nullopt;
  const std::string range = least == most ? text(least) : text(least, " or more");
  return Refusal{
      text(name, " has ", range, least == 1 ? " chunk" : " chunks", " on a device, and the costs of ",
           problem.stages(), " stages make ", chunks, " on each of ", problem.devices, " devices"),
      least == most ? text("give costs of ", least * problem.devices, " stages (joined() makes fewer)")
                    : text("give costs of ", least * problem.devices, " stages, or a multiple of ",
                           problem.devices, " above that")};
}

std::optional<Refusal> unless_fits(std::string_view name, const Problem& problem,
                                   const std::vector<Bytes>& needs) {
  for (std::size_t device = 0; device < problem.memory_limit.size(); ++device) {
    if (needs[device] <= problem.memory_limit[device]) continue;
    return Refusal{text(name, " holds ", needs[device], " bytes of activations on device ", device,
                        ", where the limit is ", problem.memory_limit[device]),
                   "allow as much, or take a schedule that adapts to its memory, such as zb-greedy or zb-v"};
  }
  return std::nullopt;
}

std::vector<int> accepted(const Problem& problem, std::vector<int> placement,
                          std::optional<Refusal> (*refusal)(const Problem&)) {
  const bool covers = static_cast<int>(placement.size()) == problem.stages();  // if not, that will be refused
  const int chunks = problem.devices > 0 ? problem.chunks() : 0;
  expect_valid(problem, covers ? placement : looped_placement(problem.devices, chunks));
  if (const auto refused = refusal(problem)) throw Error(ErrorKind::usage, refused->problem, refused->advice);
  return placement;
}

}  // namespace weft::pipeline::detail
