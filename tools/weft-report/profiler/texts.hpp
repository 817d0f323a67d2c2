#pragma once
// What is written of a recorder: a flight record that `weft-report flight` reads, a trace for Perfetto, figures for Prometheus. Pure.

#include <string>

#include "weft-report/profiler/recorder.hpp"

namespace weft::profiler {

/// Of the process and the moment.
struct Moment {
  std::string host{};
  std::int64_t pid = 0;
  std::int64_t steady_ns = 0;
  std::int64_t wall_ns = 0;
};

/// "comm-7f8c496ae9f661": the folder of a communicator's flight records, one for each rank. In each a rank is that of the communicator, for NCCL
/// does not say which rank of the job a process is. Sends and receives are left out: ranks number them differently.
std::string folder_of(const About& about);
/// Empty where rank or number of ranks is not known (NCCL 2.26 and older say no number).
std::string flight_record(const Snapshot& communicator, const Moment& moment);
/// Chrome's format, a track for each communicator. An operation lies between its first part's start and its last part's end.
std::string trace(const std::vector<Snapshot>& communicators, const Moment& moment);
/// Prometheus's text format.
std::string metrics(const std::vector<Snapshot>& communicators, const Totals& totals, const Moment& moment);

}  // namespace weft::profiler
