#pragma once
// Which algorithm an operation between nodes takes.

#include <optional>
#include <string>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {

/// WEFT_ORDER. @throws Error (usage)
ReductionOrder order_from(const Environment& environment);

/// What all ranks of a communicator agreed on when they connected.
struct Choices {
  ReductionOrder order = ReductionOrder::rank;
  AlgorithmTable table{};  ///< before the built-in one; may be empty

  /// What a rank tells the others: what it was given, else what the environment says. Of the environment's
  /// table only the first rank's counts. @throws Error (usage)
  static std::string note(int rank, const Environment& environment,
                          const std::optional<ReductionOrder>& order,
                          const std::optional<AlgorithmTable>& table);
  /// @throws Error (mismatch) naming two ranks that differ
  static Choices agreed(const std::vector<std::string>& notes);
};

/// @param ranks that exchange
Algorithm choose(const Choices& choices, const Operation& operation, int ranks);
/// The same with its reason, in words.
std::string explain_choice(const Choices& choices, const Operation& operation, int ranks);

}  // namespace weft::detail
