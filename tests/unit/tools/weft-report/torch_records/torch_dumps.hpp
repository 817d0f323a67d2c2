#pragma once
// Dumps of PyTorch as values and as JSON text, of ranks that are all well, of which a test spoils some.

#include <string>
#include <vector>

#include "weft-report/torch_records/dump.hpp"
#include "weft/core/error.hpp"

namespace weft::test {

/// An all_reduce of default_pg that has ended.
inline report::torch_records::TorchEntry torch_entry(
    std::int64_t number, const std::string& tensor = "12 Float",
    report::torch_records::TorchState state = report::torch_records::TorchState::completed) {
  report::torch_records::TorchEntry entry;
  entry.record = number - 1;
  entry.group = "0";
  entry.collective = number;
  entry.name = "all_reduce";
  entry.inputs = {tensor};
  entry.outputs = {tensor};
  entry.state = state;
  entry.created_ns = 1'790'000'000'000'000'000 + number;
  entry.started_ns = state == report::torch_records::TorchState::scheduled ? 0 : entry.created_ns + 1;
  entry.completed_ns = state == report::torch_records::TorchState::completed ? entry.created_ns + 2 : 0;
  entry.timeout_ms = 600'000;
  entry.where = "step at train.py:44";
  return entry;
}

inline report::torch_records::TorchDump torch_dump(int rank, int size,
                                                   std::vector<report::torch_records::TorchEntry> entries) {
  report::torch_records::TorchDump dump;
  dump.file = text("nccl_trace_rank_", rank);
  dump.rank = rank;
  dump.version = "2.5";
  dump.groups = {{.name = "0", .description = "default_pg", .ranks = {}}};
  for (int one = 0; one < size; ++one) dump.groups[0].ranks.push_back(one);
  dump.entries = std::move(entries);
  return dump;
}

/// A job of one dump for each rank.
inline std::vector<report::FlightRecord> torch_job(
    const std::vector<std::vector<report::torch_records::TorchEntry>>& ranks) {
  std::vector<report::FlightRecord> job;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    report::torch_records::add_record(
        job, report::torch_records::flight_of(
                 torch_dump(static_cast<int>(rank), static_cast<int>(ranks.size()), ranks[rank])));
  }
  return job;
}

/// A dump as PyTorch's JSON, slowly; with its rank, which PyTorch leaves to the name of the file.
inline std::string torch_json(int rank, int size,
                              const std::vector<report::torch_records::TorchEntry>& entries) {
  constexpr const char* states[] = {"scheduled", "started", "completed"};
  std::string ranks;
  for (int one = 0; one < size; ++one) ranks += text(one == 0 ? "" : ", ", one);
  std::string all;
  for (const auto& entry : entries) {
    const auto space = entry.inputs[0].find(' ');
    const std::string sizes = text("[[", entry.inputs[0].substr(0, space), "]]");
    const std::string types = text("[\"", entry.inputs[0].substr(space + 1), "\"]");
    all += text(all.empty() ? "" : ",", R"({"record_id":)", entry.record, R"(,"pg_id":0,"process_group":[")",
                entry.group, R"(","default_pg"],"collective_seq_id":)", entry.collective, R"(,"p2p_seq_id":)",
                entry.message, R"(,"op_id":1,"profiling_name":"nccl:)", entry.name, R"(","time_created_ns":)",
                entry.created_ns, R"(,"input_sizes":)", sizes, R"(,"input_dtypes":)", types,
                R"(,"output_sizes":)", sizes, R"(,"output_dtypes":)", types, R"(,"state":")",
                states[static_cast<int>(entry.state)], R"(","time_discovered_started_ns":)", entry.started_ns,
                R"(,"time_discovered_completed_ns":)", entry.completed_ns, R"(,"retired":)",
                entry.retired ? "true" : "false", R"(,"timeout_ms":)", entry.timeout_ms, R"(,"is_p2p":)",
                entry.is_message ? "true" : "false", "}");
  }
  return text(R"({"version":"2.5","rank":)", rank,
              R"(,"pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[)", ranks,
              R"(]"}},"pg_status":{},"entries":[)", all, "]}");
}

}  // namespace weft::test
