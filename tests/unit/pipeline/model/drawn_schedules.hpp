#pragma once
// Small random schedules, each legal by the walk that made it, and problems for them.

#include <algorithm>
#include <string>
#include <vector>

#include "support/draw.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::test {

using Row = std::vector<pipeline::Action>;

struct Case {
  pipeline::Schedule schedule;
  pipeline::Problem problem;

  Row& row_of(int stage) {
    return schedule.rows[static_cast<std::size_t>(schedule.device_of[static_cast<std::size_t>(stage)])];
  }
  /// As text, for error messages.
  std::string described() const;
};

struct Size {
  int devices = 2;
  int chunks = 1;
  int microbatches = 1;
};

/// Computation alone, in the order of a random walk; placed looped, as a V or at random; backwards whole,
/// split or mixed. Without a size: 2 or 3 devices with 1 or 2 stages each, 1 to 3 microbatches.
Case draw_computation(Draw& draw, const Size& size);
Case draw_computation(Draw& draw);
/// The same with or without each of: transfers, unshards, reductions, recomputation, offload, overlapping
/// pairs and a memory limit.
Case draw_valid(Draw& draw);

/// Lets about half of the forwards overlap the backwards next to them. The two may then depend on each other
/// by way of other devices: a deadlock.
void add_pairs(Case& one, Draw& draw);
void drop_pairs(Case& one);
/// Memory limits that the schedule just stays within, or larger ones.
void add_limit(Case& one, Draw& draw);

inline int size(const Row& row) {
  return static_cast<int>(row.size());
}
inline void insert(Row& row, int at, const pipeline::Action& action) {
  row.insert(row.begin() + at, action);
}
/// The place of an entry in the row, or -1 if it is not there.
inline int position(const Row& row, const pipeline::Action& action) {
  const auto found = std::ranges::find(row, action);
  return found == row.end() ? -1 : static_cast<int>(found - row.begin());
}
inline int between(Draw& draw, int first, int last) {
  return first + draw.below(last - first + 1);
}

}  // namespace weft::test
