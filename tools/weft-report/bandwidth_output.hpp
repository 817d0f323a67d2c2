#pragma once
// What tables of benchmarks say beside what links allow, and NCCL's own costs.

#include <boost/json.hpp>
#include <vector>

#include "common/findings/report.hpp"
#include "weft-report/nccl/job.hpp"

namespace weft::report {

/// Without rows for a job that has no tables of benchmarks and no costs.
std::vector<TextTable> bandwidth_tables(const nccl::Job& job);
/// "bandwidth": a row for each table; "costs" and "choices" where the logs hold costs.
void add_bandwidth(const nccl::Job& job, boost::json::object& into);

}  // namespace weft::report
