#include <limits>

#include "refusal.hpp"
#include "rows.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {

std::optional<Refusal> looped_bfs_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("looped-bfs", problem, 2, std::numeric_limits<int>::max())) return refused;
  std::vector<Bytes> needs(static_cast<std::size_t>(problem.devices));
  for (int stage = 0; stage < problem.stages(); ++stage)
    needs[static_cast<std::size_t>(stage % problem.devices)] +=
        problem.microbatches * problem.costs.stages[static_cast<std::size_t>(stage)].activation;
  return unless_fits("looped-bfs", problem, needs);
}

}  // namespace detail

Schedule looped_bfs(const Problem& problem) {
  std::vector<int> placement = looped_placement(problem.devices, problem.devices > 0 ? problem.chunks() : 0);
  Schedule schedule = detail::empty_schedule(
      "looped-bfs", problem, detail::accepted(problem, std::move(placement), detail::looped_bfs_refusal), 2);
  for (int device = 0; device < problem.devices; ++device) {
    std::vector<detail::StageRow> chunks;
    for (int chunk = 0; chunk < problem.chunks(); ++chunk)
      chunks.emplace_back(schedule.rows[static_cast<std::size_t>(device)], chunk * problem.devices + device);
    for (auto& chunk : chunks) {
      while (chunk.forwards() < problem.microbatches) chunk.forward();
    }
    for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
      while (chunk->backwards() < problem.microbatches) chunk->backward();
    }
  }
  return schedule;
}

}  // namespace weft::pipeline
