#pragma once
// Flight records as values: ranks that are all well, of which a test spoils some.

#include <map>

#include "weft-report/flight/flight.hpp"

namespace weft::test {

constexpr std::int64_t second = 1'000'000'000;
/// The wall clock at 0 of every host's steady clock that is not set otherwise.
constexpr std::int64_t epoch = 1'790'000'000 * second;

inline report::FlightOperation operation(std::uint64_t number, std::int64_t count = 1024,
                                         report::State state = report::State::done) {
  return {.number = number,
          .count = count,
          .issued_ns = static_cast<std::int64_t>(number) * second,
          .begun_ns = 0,
          .ended_ns = 0,
          .root = 0,
          .kind = Collective::all_reduce,
          .dtype = DataType::f32,
          .op = ReduceOp::sum,
          .state = state};
}

/// Operations of these counts, numbered from `first`, all done.
inline std::vector<report::FlightOperation> operations(const std::vector<std::int64_t>& counts,
                                                       std::uint64_t first = 1) {
  std::vector<report::FlightOperation> all;
  for (const std::int64_t count : counts) all.push_back(operation(first++, count));
  return all;
}

inline report::FlightCommunicator communicator(const std::string& name, std::vector<int> ranks,
                                               std::vector<report::FlightOperation> on_host) {
  report::FlightCommunicator result{name, std::move(ranks), {}};
  result.lanes[0] = std::move(on_host);
  return result;
}

/// Written 100 s after its steady clock's 0, on a signal, by rank R of host "node(R / 2)".
inline report::FlightRecord record(int rank, int size,
                                   std::vector<report::FlightCommunicator> communicators) {
  report::FlightRecord result;
  result.file = text("rank-", rank, ".json");
  result.rank = rank;
  result.size = size;
  result.host = text("node", rank / 2);
  result.pid = 100 + rank;
  result.steady_ns = 100 * second;
  result.wall_ns = epoch + result.steady_ns;
  result.progress = {{"gradients", 17, {}, 0}};
  result.communicators = std::move(communicators);
  return result;
}

/// A record a rank, each of one communicator of all; @param lanes each rank's operations
inline std::vector<report::FlightRecord> world(
    const std::vector<std::vector<report::FlightOperation>>& lanes) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < lanes.size(); ++i) ranks.push_back(static_cast<int>(i));
  std::vector<report::FlightRecord> records;
  for (const int rank : ranks) {
    const auto& own = lanes[static_cast<std::size_t>(rank)];
    records.push_back(record(rank, static_cast<int>(lanes.size()), {communicator("world", ranks, own)}));
  }
  return records;
}

inline report::FlightRecord& fails(report::FlightRecord& record, ErrorKind kind, std::int64_t at_ns,
                                   const std::string& message) {
  record.reason = "error";
  record.error = {kind, message, "all_reduce", 4, at_ns};
  return record;
}

inline std::vector<std::string> causes(const std::vector<report::Finding>& findings) {
  std::vector<std::string> result;
  for (const report::Finding& finding : findings) result.push_back(finding.cause);
  return result;
}

/// All that a finding says, a line each.
inline std::string words(const report::Finding& finding) {
  std::string result = finding.verdict + '\n';
  for (const report::Evidence& one : finding.evidence) result += one.file + ": " + one.text + '\n';
  return result + finding.fix + '\n';
}

}  // namespace weft::test
