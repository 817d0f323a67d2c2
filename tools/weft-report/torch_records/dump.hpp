#pragma once
// What PyTorch's flight recorder wrote down on a rank (TORCH_NCCL_DUMP_ON_TIMEOUT): the files nccl_trace_rank_R, which are pickles, or the
// same as JSON. Version 2 of the format (PyTorch 2.5 and later, torch/csrc/distributed/c10d/FlightRecorder.hpp).
//
//   std::vector<FlightRecord> job;
//   add_record(job, flight_of(parse_dump(bytes, "nccl_trace_rank_0")));             // for each rank
//   for (const Finding& finding : examine_torch(job)) std::cout << finding.verdict << '\n';
//
// A dump does not say its rank; the name of its file does. Where that has none, groups and messages in the dump may leave one rank only.
// A record says nothing about roots of broadcasts, and nothing about the time when it was written.
//
// WRONG: dumps of two jobs in one list; ranks and groups of both have the same names.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/flight/flight.hpp"

namespace weft::report::torch_records {

/// PyTorch's words. Without TORCH_NCCL_ENABLE_TIMING=1 nothing is ever `started`.
enum class TorchState : std::uint8_t { scheduled, started, completed };

struct TorchGroup {
  std::string name{};
  std::string description{};  ///< "default_pg"
  std::vector<int> ranks{};   ///< world ranks, ascending
};

/// Each tensor as its number of elements and its type: "12 Float".
using Tensors = std::vector<std::string>;

struct TorchEntry {
  std::int64_t record = 0;  ///< counts all entries of the rank, from 0
  std::string group{};
  std::int64_t collective =
      0;                     ///< number in the group; that of a coalesced group stands at each of its parts
  std::int64_t message = 0;  ///< the same of sends and receives
  std::string name{};        ///< "all_reduce", "send 0->1"
  Tensors inputs{};
  Tensors outputs{};
  TorchState state = TorchState::scheduled;
  std::int64_t created_ns = 0;    ///< of the wall clock
  std::int64_t started_ns = 0;    ///< 0: not known
  std::int64_t completed_ns = 0;  ///< 0: not known
  std::int64_t timeout_ms = 0;    ///< 0: not known
  bool is_message = false;
  bool retired = false;  ///< PyTorch waits for it no longer; if it is not completed, its time was up
  std::string where{};   ///< the line of the program that issued it: "step at train.py:44"; empty: not known
};

struct TorchDump {
  std::string file{};
  int rank = 0;
  std::string version{};
  std::vector<TorchGroup> groups{};
  std::vector<TorchEntry> entries{};  ///< oldest first
};

/// Whether the first bytes of a file are those of a dump.
bool is_dump(std::string_view start);
/// @param file whose name may end in the rank. @throws Error (usage) that says where it is broken
TorchDump parse_dump(std::string_view bytes, const std::string& file);

/// The dump as a flight record: scheduled is issued, started begun, completed done; what PyTorch gave up is failed.
FlightRecord flight_of(const TorchDump& dump);
/// Keeps records of a job sorted by rank, and their `size` that of the job. @throws Error (usage) for a second one of a rank
void add_record(std::vector<FlightRecord>& job, FlightRecord record);
/// All dumps in a folder; other files are ignored. Empty: there is none. @throws Error (usage) for one that is broken
std::vector<FlightRecord> read_dumps(const std::string& folder);

/// The most likely cause first: rank-diverged, rank-left-no-record, rank-behind, collective-stuck; records-overwritten where what is
/// missing makes another finding less sure. @param job not empty, as add_record() made it
std::vector<Finding> examine_torch(const std::vector<FlightRecord>& job);

}  // namespace weft::report::torch_records
