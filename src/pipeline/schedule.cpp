#include "weft/pipeline/schedule.hpp"

#include "core/fnv.hpp"

namespace weft::pipeline {
std::int64_t Schedule::actions() const {
  std::int64_t result = 0;
  for (const auto& row : rows) result += static_cast<std::int64_t>(row.size());
  return result;
}

std::vector<int> Schedule::stages_of(int device) const {
  std::vector<int> result;
  for (int stage = 0; stage < stages(); ++stage) {
    if (device_of[static_cast<std::size_t>(stage)] == device) result.push_back(stage);
  }
  return result;
}

std::uint64_t Schedule::hash() const {
  detail::Fnv hash;
  hash.add(std::int64_t{microbatches});
  for (const int device : device_of) hash.add(std::int64_t{device});
  for (const auto& row : rows) {
    hash.add(static_cast<std::int64_t>(row.size()));
    for (const Action& action : row) {
      const int marks =
          static_cast<int>(action.type) << 2 | int{action.awaits} << 1 | int{action.overlaps_next};
      hash.add(std::int64_t{marks})
          .add(std::int64_t{action.stage} << 32 | std::int64_t{action.microbatch + 1});
    }
  }
  return hash.value();
}

std::vector<int> looped_placement(int devices, int chunks) {
  std::vector<int> result;
  for (int stage = 0; stage < devices * chunks; ++stage) result.push_back(stage % devices);
  return result;
}

std::vector<int> v_placement(int devices, int chunks) {
  std::vector<int> result;
  for (int stage = 0; stage < devices * chunks; ++stage) {
    const int within = stage % devices;
    result.push_back(stage / devices % 2 == 0 ? within : devices - 1 - within);
  }
  return result;
}

}  // namespace weft::pipeline
