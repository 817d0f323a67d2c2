#pragma once
// The operations of all ranks, lined up: for each communicator and lane, the timeline of every rank that left
// a record. Operations with the same number belong together.
//
// Send/receive groups are left out: every rank numbers them for itself.
//
// Timelines point into the records, and the vector of records must not change while they are used.

#include <optional>
#include <string>
#include <vector>

#include "weft-report/flight/flight.hpp"

namespace weft::report {

/// One rank's operations on one lane of a communicator.
struct RankTimeline {
  const FlightRecord* record = nullptr;
  const FlightCommunicator* communicator = nullptr;  ///< null: its record has none with this name and ranks
  Lane lane = Lane::host;

  const std::vector<FlightOperation>& operations() const;
  std::uint64_t last() const { return operations().empty() ? 0 : operations().back().number; }
  const FlightOperation* at(std::uint64_t number) const;
};

/// The timelines of all ranks on one lane of a communicator.
struct CommunicatorTimelines {
  std::string name;
  std::vector<int> ranks;  ///< world ranks
  Lane lane = Lane::host;
  std::vector<RankTimeline> members;  ///< the ranks of `ranks` that left a record, ascending

  /// "'world' (host)"
  std::string text() const;
  /// "all_reduce #3 of 10 f32 (sum, root 0)"; the root is a world rank. Of other writers: "all_reduce #3 of 12 Float, from step at train.py:44"
  std::string text(const FlightOperation& operation) const;
};

/// The timelines of all lanes on which some rank has issued a collective.
std::vector<CommunicatorTimelines> side_by_side(const std::vector<FlightRecord>& records);

/// Ranks issued different operations under one number.
struct Divergence {
  Finding finding;
  std::optional<std::int64_t> issued;  ///< wall-clock time of the first rank; empty where no rank knows
};
std::optional<Divergence> divergence_on(const CommunicatorTimelines& timelines);

/// Ranks of which no record is there. @param records sorted by rank
std::optional<Finding> left_no_record(const std::vector<FlightRecord>& records);

/// Ranks for which others wait, one finding for each lane. Ranks that do not themselves wait for others come
/// first, and among those the lane on which most operations wait.
/// @param explained whether another finding may already explain why a rank is behind
std::vector<Finding> ranks_behind(const std::vector<CommunicatorTimelines>& communicators,
                                  const std::vector<FlightRecord>& records, bool explained);

/// The ranks on whose devices an operation has not begun that runs on others', all of which have issued it; none where records do not note beginnings.
std::optional<Finding> not_begun_on(const CommunicatorTimelines& timelines);

/// Evidence lists at most so many ranks one by one.
inline constexpr std::size_t most_lines = 8;

/// "all_reduce #12", or on the group lane "send/receive group #3".
std::string brief(Lane lane, const FlightOperation& operation);
/// "step 3 of training waits for a, b and 2 more parameters"; empty if the record has no progress.
std::string progress_text(const FlightRecord& record);
std::vector<int> ranks_of(const std::vector<const RankTimeline*>& members);
/// "rank 3", "ranks 0-2, 5" @param ranks ascending
std::string ranks_text(const std::vector<int>& ranks);
std::string seconds_text(std::int64_t ns);

}  // namespace weft::report
