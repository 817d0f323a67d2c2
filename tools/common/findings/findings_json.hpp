#pragma once
// Findings as JSON, and text from files in it.
//
//   boost::json::object all{{"findings", as_json(findings)}, {"file", as_json_text(path)}};
//
// WRONG: as_json_text() on words of this program; they are UTF-8 already, and it parses them again.

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report {

boost::json::array as_json(const std::vector<Finding>& findings);
/// Text from a file for JSON: bytes that are not UTF-8 become U+FFFD, for a line may have been cut within a character.
boost::json::value as_json_text(const std::string& raw);

}  // namespace weft::report
