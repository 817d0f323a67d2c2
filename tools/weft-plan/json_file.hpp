#pragma once

#include <boost/json.hpp>
#include <string>

namespace weft::plan {

/// @throws Error (usage) for a file that cannot be read or is no JSON
boost::json::value read_json(const std::string& path);

/// @throws Error (usage)
std::string read_text(const std::string& path);

}  // namespace weft::plan
