#include "boxes.hpp"

#include <algorithm>

#include "side_streams.hpp"

namespace weft::pipeline::detail {

std::vector<Box> boxes(const Schedule& schedule, const Prediction& prediction, std::size_t device,
                       Nanoseconds grain) {
  const std::vector<Action>& row = schedule.rows[device];
  const std::vector<Nanoseconds>&begins = prediction.begins[device], &ends = prediction.ends[device];
  const auto length = [&](std::size_t entry) { return ends[entry] - begins[entry]; };
  std::vector<Box> result;
  for (std::size_t entry = 0; entry < row.size(); ++entry) {
    if (!is_compute(row[entry].type) && row[entry].type != ActionType::recompute) continue;
    if (length(entry) <= 0) continue;
    const bool joins = !result.empty() && length(entry) < grain &&
                       result.back().end - result.back().begin < grain &&
                       begins[entry] - result.back().end < grain;
    if (!joins) {
      result.push_back({entry, entry, 1, entry, begins[entry], ends[entry]});
      continue;
    }
    Box& box = result.back();
    box.last = entry;
    ++box.actions;
    box.end = ends[entry];
    if (length(entry) > length(box.shown)) box.shown = entry;
  }
  return result;
}

std::vector<Wait> waits(const Schedule& schedule, const Prediction& prediction, std::size_t device,
                        Nanoseconds least) {
  const std::vector<Action>& row = schedule.rows[device];
  std::vector<Wait> result;
  Nanoseconds free = 0;
  for (std::size_t entry = 0; entry < row.size(); ++entry) {
    const Nanoseconds end = prediction.ends[device][entry];
    if (row[entry].awaits && SideStreams::has(row[entry].type) && end > free && end - free >= least)
      result.push_back({entry, free, end});
    free = std::max(free, end);
  }
  return result;
}

}  // namespace weft::pipeline::detail
