#pragma once
// Ranks that others wait for: who they are (flight_behind.cpp), and what is said of them
// (flight_behind_told.cpp).

#include <algorithm>
#include <optional>
#include <vector>

#include "report/flight/lanes.hpp"

namespace weft::report {

/// An operation that its rank has issued and that is not through.
struct Waiting {
  const LaneMember* member;
  const FlightOperation* operation;

  std::optional<std::int64_t> began_ns() const {
    if (operation->issued_ns > 0) return operation->issued_ns;
    return operation->begun_ns > 0 ? std::optional(operation->begun_ns) : std::nullopt;
  }
  std::optional<std::int64_t> began_wall() const {
    const auto began = began_ns();
    return began ? std::optional(member->record->wall(*began)) : std::nullopt;
  }
  std::optional<std::int64_t> waited_ns() const {
    const auto began = began_ns();
    if (!began) return std::nullopt;
    const std::int64_t until = operation->ended_ns > 0 ? operation->ended_ns : member->record->steady_ns;
    return std::max<std::int64_t>(until - *began, 0);  // it may have begun while the record was written
  }
};

/// One lane on which somebody is behind.
struct Behind {
  const FlightLane* lane = nullptr;
  std::vector<const LaneMember*> behind{};
  std::vector<Waiting> waiting{};       // the first operation of each rank that waits
  std::size_t operations = 0;           // that wait
  std::vector<int> waits_for_others{};  // who of those behind waits on another lane

  std::optional<std::int64_t> longest_ns() const {
    std::optional<std::int64_t> longest;
    for (const Waiting& one : waiting) {
      if (const auto waited = one.waited_ns()) longest = std::max(longest.value_or(*waited), *waited);
    }
    return longest;
  }
};

std::vector<int> ranks_of(const std::vector<const LaneMember*>& members);
std::vector<int> ranks_of(const std::vector<Waiting>& waiting);

/// @param failed whether some rank has failed
/// @param explained whether something else is known to be wrong
Finding finding_of(const Behind& found, bool failed, bool explained);

}  // namespace weft::report
