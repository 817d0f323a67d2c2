#pragma once
// Collectives of all ranks side by side: a lane of a communicator, with every member that left a record.
//
// Send/receive groups have no place here: their numbers are each rank's own.
//
// Lanes point into the records and the records' vector, which must stay as they are.

#include <optional>
#include <string>
#include <vector>

#include "report/flight/flight.hpp"

namespace weft::report {

struct LaneMember {
  const FlightRecord* record = nullptr;
  const FlightCommunicator* communicator = nullptr;  ///< null: its record knows none of this name and ranks
  Lane lane = Lane::host;

  const std::vector<FlightOperation>& operations() const;
  std::uint64_t last() const { return operations().empty() ? 0 : operations().back().number; }
  const FlightOperation* at(std::uint64_t number) const;
};

struct FlightLane {
  std::string name;
  std::vector<int> ranks;  ///< of the world
  Lane lane = Lane::host;
  std::vector<LaneMember> members;  ///< those of `ranks` that left a record, ascending

  /// "'world' (host)"
  std::string text() const;
  /// "all_reduce #3 of 10 f32 (sum, root 0)", root being a world rank
  std::string text(const FlightOperation& operation) const;
};

/// All lanes on which some rank has issued a collective.
std::vector<FlightLane> side_by_side(const std::vector<FlightRecord>& records);

/// One lane on which ranks issued different operations under one number.
struct Divergence {
  Finding finding;
  std::optional<std::int64_t> issued;  ///< by the wall clock, by the first rank; unless no rank knows
};
std::optional<Divergence> divergence_on(const FlightLane& lane);

/// Everyone who is behind on some lane, one finding a lane; first those who do not themselves wait for others
/// elsewhere, among them where most operations wait.
/// @param explained whether something else is known to be wrong, which a rank may be behind for
std::vector<Finding> ranks_behind(const std::vector<FlightLane>& lanes,
                                  const std::vector<FlightRecord>& records, bool explained);

/// Of ranks that evidence tells of one by one.
inline constexpr std::size_t most_lines = 8;

/// "all_reduce #12" or, of a group lane, "send/receive group #3".
std::string brief(Lane lane, const FlightOperation& operation);
/// "rank 3", "ranks 0-2, 5", of ascending ranks
std::string ranks_text(const std::vector<int>& ranks);
std::string seconds_text(std::int64_t ns);

}  // namespace weft::report
