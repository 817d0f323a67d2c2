#pragma once
// The parts of a page about a run: who its ranks are and how they differ, and what carries data between them.
//
//   report.sections = {bandwidth_reached(job), transports(run), hosts_compared(run), rank_matrix(run)};
//
// All of them stay small for thousands of ranks: hosts that say the same are one row, and drawings have a largest number of marks.

#include "common/findings/report.hpp"
#include "weft-report/output/run.hpp"

namespace weft::report {

/// Bandwidth that benchmarks reached beside what the links allow, by size; without a table in the logs, how to make one.
PageSection bandwidth_reached(const nccl::Job& job);
/// A row for hosts that say the same; what differs from most hosts is marked.
PageSection hosts_compared(const RunFacts& run);
/// Names of hosts that differ from most in what they say.
std::set<std::string> odd_hosts(const RunFacts& run);
/// A row for each host and a cell for each rank, by what carries its data to other hosts.
PageSection rank_matrix(const RunFacts& run);
/// What carries data between hosts, or between ranks of one host: a table, and a drawing where it can be read.
PageSection transports(const RunFacts& run);

}  // namespace weft::report
