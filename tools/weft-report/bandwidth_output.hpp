#pragma once
// Prints what tables of benchmarks say beside what links allow, and NCCL's costs beside the cost model's.

#include <boost/json.hpp>
#include <iosfwd>

#include "report/nccl/job.hpp"

namespace weft::report {

/// Nothing for a job without tables and costs.
void print_bandwidth(const nccl::Job& job, std::ostream& out);
/// "bandwidth": a row for each table; "costs" and "choices" where the logs hold costs.
void add_bandwidth(const nccl::Job& job, boost::json::object& into);

}  // namespace weft::report
