// GPipe and looped breadth-first: every device runs all its forwards, then all its backwards. With several
// chunks, all microbatches of a chunk come before the next chunk; backwards take the chunks in reverse. Every
// device holds m microbatches of each of its stages.

#include <limits>

#include "pipeline/schedules/named.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {
namespace {

/// The memory that each device needs to hold all microbatches of all its stages.
std::vector<Bytes> bytes_of_all(const Problem& problem) {
  std::vector<Bytes> needs(static_cast<std::size_t>(problem.devices));
  for (int stage = 0; stage < problem.stages(); ++stage)
    needs[static_cast<std::size_t>(stage % problem.devices)] +=
        problem.microbatches * problem.costs.stages[static_cast<std::size_t>(stage)].activation;
  return needs;
}

Schedule breadth_first(const char* name, const Problem& problem, std::vector<int> placement) {
  Schedule schedule = empty_schedule(name, problem, std::move(placement), 2);
  for (int device = 0; device < problem.devices; ++device) {
    std::vector<StageRow> chunks;
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

}  // namespace

std::optional<Refusal> gpipe_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("gpipe", problem, 1, 1)) return refused;
  return unless_fits("gpipe", problem, bytes_of_all(problem));
}

std::optional<Refusal> looped_bfs_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("looped-bfs", problem, 2, std::numeric_limits<int>::max())) return refused;
  return unless_fits("looped-bfs", problem, bytes_of_all(problem));
}

}  // namespace detail

Schedule gpipe(const Problem& problem) {
  return detail::breadth_first(
      "gpipe", problem, detail::accepted(problem, looped_placement(problem.devices), detail::gpipe_refusal));
}

Schedule looped_bfs(const Problem& problem) {
  std::vector<int> placement = looped_placement(problem.devices, problem.devices > 0 ? problem.chunks() : 0);
  return detail::breadth_first("looped-bfs", problem,
                               detail::accepted(problem, std::move(placement), detail::looped_bfs_refusal));
}

}  // namespace weft::pipeline
