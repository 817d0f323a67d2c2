#pragma once
// What a gathering says on the wire, whatever carries it: every rank sends rank 0 an arrival, rank 0 answers
// all of them with one verdict, either all ranks' notes or why there are none. One collector, instead of
// every rank reading every other, keeps it at two messages a rank, and every rank hears the same reason.

#include <optional>
#include <string>
#include <vector>

#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

/// "ranks 1, 3 of 4 did not arrive within 2.0 s for connect"
Error missing_error(int rank, const std::vector<int>& missing, int size, const std::string& purpose,
                    Deadline deadline);

/// All ranks arrived but rank 0 does not answer.
Error silent_error(int rank, int size, const std::string& purpose, Deadline deadline);

std::string encode_arrival(const std::string& purpose, const std::string& note);

/// Rank 0, by rank; an empty entry is a rank that did not come before the deadline.
std::string conclude(const std::vector<std::optional<std::string>>& arrivals, const std::string& purpose,
                     Deadline deadline);

/// The notes. @throws Error (timeout, mismatch) when the verdict is that there are none
std::vector<std::string> open_verdict(const std::string& verdict, int rank);

/// @throws Error (usage) unless `members` are different ranks below `size` and `rank` is one of them
/// @returns the place of `rank` in `members`
int place_among(const std::vector<int>& members, int rank, int size);

}  // namespace weft::detail
