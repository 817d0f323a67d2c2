#pragma once
// An answer of RAS and its findings as tables and JSON.

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "common/findings/report.hpp"
#include "weft-report/ras/judge.hpp"

namespace weft::report {

/// Findings with their communicator, ranks and processes.
boost::json::array ras_findings_json(const std::vector<ras::RasFinding>& found);
std::vector<Finding> findings_of(const std::vector<ras::RasFinding>& found);
/// "NCCL 2.30.7 at node7:28028: 3 communicators, 32 processes on 4 nodes"
std::string looked_at(const ras::Answer& answer);
TextTable communicators_table(const ras::Answer& answer);
/// @param next what to ask next
std::string to_json(const std::vector<ras::RasFinding>& found, const ras::Answer& answer,
                    const std::string& next);

}  // namespace weft::report
