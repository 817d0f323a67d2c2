#pragma once
// Settings that take turns in rounds, and which of them look best so far. A run counts by how far it is from the middle of its round, size by size, so
// that neither drift nor one run that was disturbed, of whatever setting, changes the order of the others.
//
//   std::vector<Candidate> all{{unchanged}, {first}, ...};
//   add_round({{&all[0], rows}, {&all[1], more}, ...});
//   for (const Candidate* one : by_worth(alive, all[0])) ...            // the best first

#include <utility>
#include <vector>

#include "weft-report/tuning/bench_rows.hpp"
#include "weft-report/tuning/ranges.hpp"
#include "weft-report/tuning/space.hpp"

namespace weft::report::tuning {

struct Candidate {
  Setting setting{};
  bool by_size = false;  ///< an algorithm: it counts where it is faster
  std::vector<GainBySize>
      rounds{};  ///< logarithms of times, by size; by_worth() makes them count from the middle of their round
};

void add_round(const std::vector<std::pair<Candidate*, std::vector<Timing>>>& runs);

/// Every round of these candidates, which have all taken part in all of them, counts from its middle.
void centre(const std::vector<Candidate*>& all);

/// Logarithms against what is unchanged, over all rounds. The lower median counts: what disturbs a run makes it slower, and a candidate that is
/// left out never comes back.
GainBySize gains_of(const Candidate& candidate, const Candidate& unchanged);
/// Their mean over sizes.
double gain_of(const Candidate& candidate, const Candidate& unchanged);

/// The candidates from the best to the worst; of two with equal gains the one that changes fewer settings comes first. Algorithms are ranked by what
/// each adds to those before it, because every size may take the fastest of them.
std::vector<Candidate*> by_worth(std::vector<Candidate*> alive, Candidate& unchanged);

}  // namespace weft::report::tuning
