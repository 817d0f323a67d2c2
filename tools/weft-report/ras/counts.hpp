#pragma once
// Which ranks of a communicator have launched fewer operations than others, or others.
//
//   const std::optional<Behind> found = behind_in(communicator);
//   if (found) std::cout << ranks_text(found->ranks) << " ...\n";
//
// RAS counts launches by type. Ranks of a healthy job launch the same sequence, and are asked at slightly different moments: of two of them one
// is never ahead in one type and behind in another. Ranks for which that does not hold have launched other operations.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft-report/ras/answer.hpp"

namespace weft::report::ras {

/// Launches of each rank, in the order of Communicator::collectives; a type that is not listed counts the same on all ranks.
using RankCounts = std::map<int, std::vector<std::uint64_t>>;

struct Behind {
  std::vector<int> ranks{};  ///< ascending
  int unnamed = 0;           ///< more of them, which the answer does not name
  /// Some have launched another operation than the others: they are ahead in one type and behind in another.
  bool other_operations = false;
  std::uint64_t gap = 0;  ///< how many operations they are behind; of other operations, the most of a type
  std::vector<Evidence> evidence{};  ///< a line for each type that differs
};

/// Of each rank that answered; ranks that the text does not name are those that remain, where that is certain. Empty: it is not.
RankCounts counts_of(const Communicator& communicator);
std::optional<Behind> behind_in(const Communicator& communicator, const std::string& file);

/// "30 ranks: 0-11, 14-31"; "ranks 3, 4"
std::string names_of(const std::vector<int>& ranks, int unnamed = 0);

}  // namespace weft::report::ras
