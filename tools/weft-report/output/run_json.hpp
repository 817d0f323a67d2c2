#pragma once
// A run as JSON, and read back from it, for weft-report diff.
//
//   const std::string file = to_json(run);
//   const RunFacts same = read_run(file, "findings.json");

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "common/findings/findings_json.hpp"
#include "weft-report/output/run.hpp"

namespace weft::report {

/// @param more members that a command adds; a name that a run has is kept
std::string to_json(const RunFacts& run, boost::json::object more = {});
/// Whether a file may be one of to_json(), by its first bytes.
bool opens_run(std::string_view start);
/// @throws Error (usage) with the place in the file
RunFacts read_run(std::string_view content, const std::string& file);

}  // namespace weft::report
