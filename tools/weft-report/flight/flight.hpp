#pragma once
// Merges the flight records of all ranks and says which rank caused a hang or a failure.
//
// A rank writes rank-R.json when an operation fails, a deadline passes or SIGUSR2 arrives: how far its
// trainer is and the newest operations of each communicator. One record alone mostly shows waiting; together
// the records show which rank did not arrive. `examine` is a pure function over the records of one run:
//
//   const std::vector<FlightRecord> records = read_flights("dumps");
//   for (const Finding& finding : examine(records)) std::cout << finding.verdict << '\n';
//   if (...) std::cout << progress_summary(records) << '\n';       // nothing wrong: how far each rank is
//
// WRONG: a folder with records of two runs. Nothing in a record tells the runs apart.
//
// Everything is a value, and any thread may call. Times are nanoseconds of the steady clock of the record's
// host; `wall` converts them to wall-clock time, which is comparable between hosts as far as their clocks
// agree.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"
#include "weft/collectives/algorithm.hpp"
#include "weft/collectives/reduce_op.hpp"
#include "weft/core/dtype.hpp"
#include "weft/core/error.hpp"

namespace weft::report {

/// The operations of a communicator are numbered in three sequences: collectives on host memory, collectives
/// on device memory, and send/receive groups.
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

/// What a record that is not weft's says of an operation, in its writer's words.
struct OperationDetails {
  std::string called{};         ///< "all_reduce"
  std::string operands{};       ///< what ranks have to agree on: "12 Float"
  std::string where{};          ///< the line that issued it: "step at train.py:44"; empty: not known
  std::int64_t timeout_ms = 0;  ///< 0: not known
};

/// For a send/receive group only number, state, times and details are set.
struct FlightOperation {
  std::uint64_t number = 0;
  std::int64_t count = 0;
  std::int64_t issued_ns = 0;  ///< 0: not known, also for the two below
  std::int64_t begun_ns = 0;
  std::int64_t ended_ns = 0;
  int root = 0;  ///< a rank of the communicator
  Collective kind = Collective::barrier;
  DataType dtype = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  State state = State::issued;
  /// Set: it stands in place of kind, count, dtype, op and root.
  std::shared_ptr<const OperationDetails> details{};

  std::string_view called() const { return details ? std::string_view(details->called) : name(kind); }
  bool ended() const { return state == State::done || state == State::failed; }
  /// Whether both are the same operation, apart from their numbers.
  bool agrees_with(const FlightOperation& other) const {
    if (details && other.details)
      return details == other.details ||
             (details->called == other.details->called && details->operands == other.details->operands);
    return !details && !other.details && kind == other.kind && count == other.count && dtype == other.dtype &&
           op == other.op && root == other.root;
  }
};

struct FlightCommunicator {
  std::string name;
  std::vector<int> ranks;  ///< world ranks
  /// For each lane the newest operations, oldest first: numbers rise.
  std::array<std::vector<FlightOperation>, lane_names.size()> lanes;

  const std::vector<FlightOperation>& on(Lane lane) const { return lanes[static_cast<std::size_t>(lane)]; }
};

struct FlightError {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  std::string operation;     ///< may be empty: not known
  std::uint64_t number = 0;  ///< 0: not known
  std::int64_t at_ns = 0;

  /// Whether the cause is on this rank. A deadline, a lost peer or a mismatch may have its cause on another
  /// rank. A misuse that another rank is heard to have made begins with that rank.
  bool own() const {
    return (kind == ErrorKind::usage && !message.starts_with("rank ")) || kind == ErrorKind::system ||
           kind == ErrorKind::internal;
  }
};

struct FlightProgress {
  std::string track;
  std::int64_t step = 0;
  std::vector<std::string> waits_for;  ///< some of the parameters that are not ready yet
  std::int64_t waits_for_count = 0;    ///< how many parameters are not ready, in all
};

/// PyTorch writes a record when an operation takes too long. When it was written is not known: both clocks are 0.
inline constexpr std::string_view torch_reason = "PyTorch";

struct FlightRecord {
  std::string file;
  int rank = 0;
  int size = 1;
  std::string host;
  std::int64_t pid = 0;
  std::string reason = "signal";  ///< "error", "signal", torch_reason or a word of the program
  std::int64_t steady_ns = 0;     ///< both clocks at the time of writing
  std::int64_t wall_ns = 0;
  std::optional<FlightError> error;  ///< the first error on this rank
  std::vector<FlightProgress> progress;
  std::vector<FlightCommunicator> communicators;

  std::int64_t wall(std::int64_t steady) const { return wall_ns + (steady - steady_ns); }
  bool failed() const { return reason == "error" || reason == torch_reason || error.has_value(); }
};

/// @param file named in messages. @throws Error (usage) naming it, the place in it and what is wrong there
FlightRecord parse_flight(std::string_view content, const std::string& file);
/// Sorted by rank. @throws Error (usage) if there is none, two are of one rank, or sizes differ
std::vector<FlightRecord> of_one_run(std::vector<FlightRecord> records);
/// Whether a folder has such files.
bool has_flights(const std::string& folder);
/// All files rank-R.json of a folder; other files are ignored. @throws Error (usage) as the two above
std::vector<FlightRecord> read_flights(const std::string& folder);

/// The most likely cause first: rank-diverged, rank-raised-first (before rank-diverged where it was earlier),
/// rank-left-no-record, rank-behind, ranks-disagree; collective-stuck or operation-failed if none of these explains it.
/// @param records of_one_run
std::vector<Finding> examine(const std::vector<FlightRecord>& records);
/// The progress of all ranks in one line: steps, and the last operation of each communicator.
std::string progress_summary(const std::vector<FlightRecord>& records);

}  // namespace weft::report
