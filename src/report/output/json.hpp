#pragma once
// Findings and runs as JSON, and a run read back from it, for weft-report diff.
//
//   const std::string file = to_json(run);
//   const RunFacts same = read_run(file, "findings.json");
//
// WRONG: as_json_text() on words of this program; they are UTF-8 already, and it parses them again.

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "report/output/run.hpp"

namespace weft::report {

boost::json::array as_json(const std::vector<Finding>& findings);
/// Text from a file for JSON: bytes that are not UTF-8 become U+FFFD, for a line may have been cut within a character.
boost::json::value as_json_text(const std::string& raw);

/// @param more members that a command adds; a name that a run has is kept
std::string to_json(const RunFacts& run, boost::json::object more = {});
/// Whether a file may be one of to_json(), by its first bytes.
bool opens_run(std::string_view start);
/// @throws Error (usage) with the place in the file
RunFacts read_run(std::string_view content, const std::string& file);

}  // namespace weft::report
