#pragma once
// Flight records, merged: which rank is to blame.
//
// A rank writes rank-R.json when an operation fails, a deadline passes or SIGUSR2 arrives: how far its
// trainer is and the newest operations of each communicator. One record alone mostly tells of waiting; beside
// the others it shows who did not come. `examine` is a pure function over the records of one run:
//
//   const std::vector<FlightRecord> records = read_flights("dumps");
//   for (const Finding& finding : examine(records)) std::cout << finding.verdict << '\n';
//   if (...) std::cout << whereabouts(records) << '\n';       // nothing wrong: where everybody is
//
// WRONG: a folder with records of two runs. What one run left beside another's cannot be told apart.
//
// Everything is a value, and any thread may call. Times are nanoseconds; a record's own are of its host's
// steady clock, which `wall` takes to the clock that hosts share, as far as they keep it.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/finding.hpp"
#include "weft/collectives/algorithm.hpp"
#include "weft/collectives/reduce_op.hpp"
#include "weft/core/dtype.hpp"
#include "weft/core/error.hpp"

namespace weft::report {

enum class Lane : std::uint8_t { host, device, group };
enum class State : std::uint8_t { issued, begun, done, failed };

inline constexpr std::array<std::string_view, 3> lane_names{"host", "device", "group"};
inline constexpr std::array<std::string_view, 4> state_names{"issued", "begun", "done", "failed"};
constexpr std::string_view name(Lane lane) {
  return lane_names[static_cast<std::size_t>(lane)];
}
constexpr std::string_view name(State state) {
  return state_names[static_cast<std::size_t>(state)];
}

/// Of a send/receive group only number, state and times mean something.
struct FlightOperation {
  std::uint64_t number = 0;
  std::int64_t count = 0;
  std::int64_t issued_ns = 0;  ///< as the others, 0: not known
  std::int64_t begun_ns = 0;
  std::int64_t ended_ns = 0;
  int root = 0;  ///< in the communicator
  Collective kind = Collective::barrier;
  DataType dtype = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  State state = State::issued;

  bool ended() const { return state == State::done || state == State::failed; }
  /// Whether both are the same to those who carry them out, whatever their numbers.
  bool agrees_with(const FlightOperation& other) const {
    return kind == other.kind && count == other.count && dtype == other.dtype && op == other.op &&
           root == other.root;
  }
};

struct FlightCommunicator {
  std::string name;
  std::vector<int> ranks;  ///< of the world
  /// By lane, the newest ones, oldest first: numbers rise.
  std::array<std::vector<FlightOperation>, lane_names.size()> lanes;

  const std::vector<FlightOperation>& on(Lane lane) const { return lanes[static_cast<std::size_t>(lane)]; }
};

struct FlightError {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  std::string operation;     ///< may be empty: not known
  std::uint64_t number = 0;  ///< 0: not known
  std::int64_t at_ns = 0;

  /// Whether it began on its rank. A deadline, a lost peer and a disagreement tell of others, too.
  bool own() const {
    return kind == ErrorKind::usage || kind == ErrorKind::system || kind == ErrorKind::internal;
  }
};

struct FlightProgress {
  std::string track;
  std::int64_t step = 0;
  std::vector<std::string> waits_for;  ///< a few of the parameters that are not ready yet
  std::int64_t waits_for_count = 0;    ///< how many those are in all
};

struct FlightRecord {
  std::string file;
  int rank = 0;
  int size = 1;
  std::string host;
  std::int64_t pid = 0;
  std::string reason = "signal";  ///< "error", "signal" or the program's own word
  std::int64_t steady_ns = 0;     ///< both clocks when it was written
  std::int64_t wall_ns = 0;
  std::optional<FlightError> error;  ///< the first on this rank
  std::vector<FlightProgress> progress;
  std::vector<FlightCommunicator> communicators;

  std::int64_t wall(std::int64_t steady) const { return wall_ns + (steady - steady_ns); }
  bool failed() const { return reason == "error" || error.has_value(); }
};

/// @param file named in messages. @throws Error (usage) naming it, the place in it and what is wrong there
FlightRecord parse_flight(std::string_view content, const std::string& file);
/// By rank. @throws Error (usage) when there is none, two are of one rank, or sizes differ
std::vector<FlightRecord> of_one_run(std::vector<FlightRecord> records);
/// All files rank-R.json of a folder; others are not looked at. @throws Error (usage) as the two above
std::vector<FlightRecord> read_flights(const std::string& folder);

/// The cause first, then what else holds: rank-diverged, rank-raised-first (before it where it was earlier),
/// rank-left-no-record, rank-behind; operation-failed when ranks failed and nothing of this says why.
/// @param records of_one_run
std::vector<Finding> examine(const std::vector<FlightRecord>& records);
/// Where the ranks are, in one line: steps, and the last operation of each communicator.
std::string whereabouts(const std::vector<FlightRecord>& records);

}  // namespace weft::report
