// 1F1B and its variants: a device begins some forwards, then runs one backward and one forward in turn, then
// the backwards that are left. How many forwards it begins with is what the variants differ in:
//
//   1F1B         p - d on device d
//   eager        2(p - 1 - d) + 1, as far as memory allows
//   interleaved  2(p - 1 - d) + (v - 1) p of its v chunks together, microbatches in groups of p

#include <algorithm>
#include <limits>
#include <utility>

#include "pipeline/schedules/named.hpp"
#include "pipeline/simulate/held_memory.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {
namespace {

/// @param in_flight microbatches between forward and backward, 1 or more
void one_f_one_b_row(StageRow row, int microbatches, int in_flight) {
  while (row.forwards() < std::min(in_flight, microbatches)) row.forward();
  while (row.forwards() < microbatches) {
    row.backward();
    row.forward();
  }
  while (row.backwards() < microbatches) row.backward();
}

/// A microbatch of one of a device's chunks.
struct ChunkMicrobatch {
  int chunk, microbatch;
};

/// The forwards of every device, in order: groups of p microbatches, chunk after chunk. Backwards have the
/// same order from the last chunk to the first. The last group is whole, even if the problem has fewer.
std::vector<ChunkMicrobatch> whole_groups(const Problem& problem) {
  std::vector<ChunkMicrobatch> order;
  for (int first = 0; first < problem.microbatches; first += problem.devices) {
    for (int chunk = 0; chunk < problem.chunks(); ++chunk) {
      for (int i = 0; i < problem.devices; ++i) order.push_back({chunk, first + i});
    }
  }
  return order;
}

/// Writes the row of whole groups without the microbatches that the problem does not have. A last group of
/// another size could deadlock: devices would disagree about the order.
void interleaved_row(const Problem& problem, const std::vector<ChunkMicrobatch>& order, int device,
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

Schedule interleaved(const Problem& problem, std::vector<int> placement) {
  Schedule schedule = empty_schedule("interleaved", problem, std::move(placement), 2);
  const std::vector<ChunkMicrobatch> order = whole_groups(problem);
  for (int device = 0; device < problem.devices; ++device)
    interleaved_row(problem, order, device, schedule.rows[static_cast<std::size_t>(device)]);
  return schedule;
}

}  // namespace

std::optional<Refusal> one_f_one_b_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("1f1b", problem, 1, 1)) return refused;
  std::vector<Bytes> needs;
  for (int device = 0; device < problem.devices; ++device)
    needs.push_back(std::min(problem.microbatches, problem.devices - device) *
                    problem.costs.stages[static_cast<std::size_t>(device)].activation);
  return unless_fits("1f1b", problem, needs);
}

std::optional<Refusal> eager_one_f_one_b_refusal(const Problem& problem) {
  return unless_chunks("eager-1f1b", problem, 1, 1);
}

std::optional<Refusal> interleaved_one_f_one_b_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("interleaved", problem, 2, std::numeric_limits<int>::max()))
    return refused;
  if (problem.memory_limit.empty()) return std::nullopt;
  const Schedule schedule = interleaved(problem, looped_placement(problem.devices, problem.chunks()));
  return unless_fits("interleaved", problem, peaks(schedule, problem));
}

}  // namespace detail

Schedule one_f_one_b(const Problem& problem) {
  Schedule schedule = detail::empty_schedule(
      "1f1b", problem,
      detail::accepted(problem, looped_placement(problem.devices), detail::one_f_one_b_refusal), 2);
  for (int device = 0; device < problem.devices; ++device)
    detail::one_f_one_b_row({schedule.rows[static_cast<std::size_t>(device)], device}, problem.microbatches,
                            problem.devices - device);
  return schedule;
}

Schedule eager_one_f_one_b(const Problem& problem) {
  Schedule schedule = detail::empty_schedule(
      "eager-1f1b", problem,
      detail::accepted(problem, looped_placement(problem.devices), detail::eager_one_f_one_b_refusal), 2);
  Bytes before = problem.microbatches;
  for (int device = 0; device < problem.devices; ++device) {
    const auto index = static_cast<std::size_t>(device);
    const Bytes activation = problem.costs.stages[index].activation;
    // Fewer than the device before it, as long as forwards are left there. With as many it would wait for a
    // forward that comes only after that device's first backward, and lose a round trip per microbatch.
    const Bytes most = before < problem.microbatches ? std::max<Bytes>(before - 1, 1) : before;
    Bytes in_flight = std::min<Bytes>(2 * (problem.devices - 1 - device) + 1, most);
    if (!problem.memory_limit.empty() && activation > 0)
      in_flight = std::min(in_flight, problem.memory_limit[index] / activation);
    detail::one_f_one_b_row({schedule.rows[index], device}, problem.microbatches,
                            static_cast<int>(in_flight));
    before = in_flight;
  }
  return schedule;
}

Schedule interleaved_one_f_one_b(const Problem& problem) {
  std::vector<int> placement = looped_placement(problem.devices, problem.devices > 0 ? problem.chunks() : 0);
  return detail::interleaved(
      problem, detail::accepted(problem, std::move(placement), detail::interleaved_one_f_one_b_refusal));
}

}  // namespace weft::pipeline
