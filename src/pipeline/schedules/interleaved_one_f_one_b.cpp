#include <algorithm>
#include <limits>
#include <utility>

#include "pipeline/held_memory.hpp"
#include "refusal.hpp"
#include "rows.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {
namespace {

struct Place {
  int chunk, microbatch;
};

/// The forwards of every device, in order: groups of p microbatches, chunk after chunk. Backwards have the
/// same order from the last chunk to the first. The last group is whole, whether there are that many or not.
std::vector<Place> whole_groups(const Problem& problem) {
  std::vector<Place> order;
  for (int first = 0; first < problem.microbatches; first += problem.devices) {
    for (int chunk = 0; chunk < problem.chunks(); ++chunk) {
      for (int i = 0; i < problem.devices; ++i) order.push_back({chunk, first + i});
    }
  }
  return order;
}

/// The row of whole groups, less what there is none of: with groups of another size devices could wait for
/// each other for ever.
void write_row(const Problem& problem, const std::vector<Place>& order, int device,
               std::vector<Action>& row) {
  std::vector<StageRow> chunks;
  for (int chunk = 0; chunk < problem.chunks(); ++chunk)
    chunks.emplace_back(row, chunk * problem.devices + device);
  const auto early =
      std::min(order.size(), static_cast<std::size_t>(2 * (problem.devices - device - 1) +
                                                      (problem.chunks() - 1) * problem.devices));
  for (std::size_t i = 0; i < order.size() + early; ++i) {
    if (i < order.size() && order[i].microbatch < problem.microbatches)
      chunks[static_cast<std::size_t>(order[i].chunk)].forward();
    if (i >= early && order[i - early].microbatch < problem.microbatches)
      chunks[static_cast<std::size_t>(problem.chunks() - 1 - order[i - early].chunk)].backward();
  }
}

Schedule in_groups(const Problem& problem, std::vector<int> placement) {
  Schedule schedule = empty_schedule("interleaved", problem, std::move(placement), 2);
  const std::vector<Place> order = whole_groups(problem);
  for (int device = 0; device < problem.devices; ++device)
    write_row(problem, order, device, schedule.rows[static_cast<std::size_t>(device)]);
  return schedule;
}

}  // namespace

std::optional<Refusal> interleaved_one_f_one_b_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("interleaved", problem, 2, std::numeric_limits<int>::max()))
    return refused;
  if (problem.memory_limit.empty()) return std::nullopt;
  const Schedule schedule = in_groups(problem, looped_placement(problem.devices, problem.chunks()));
  return unless_fits("interleaved", problem, peaks(schedule, problem));
}

}  // namespace detail

Schedule interleaved_one_f_one_b(const Problem& problem) {
  std::vector<int> placement = looped_placement(problem.devices, problem.devices > 0 ? problem.chunks() : 0);
  return detail::in_groups(
      problem, detail::accepted(problem, std::move(placement), detail::interleaved_one_f_one_b_refusal));
}

}  // namespace weft::pipeline
