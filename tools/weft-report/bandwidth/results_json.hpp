#pragma once
// Reads tables of measurements from JSON: what nccl-tests writes with -J (versions 1 to 3 of its file), and weft-bench with --json. Members
// that are not needed are passed over. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "weft-report/bandwidth/tables.hpp"

namespace weft::report::bandwidth {

/// Whether the first bytes of a JSON document are those of one that read_results() takes.
bool opens_results(std::string_view start);

/// A measurement that nccl-tests calls "nan" is left out, a row of only such ones with it.
/// @throws Error (usage) with the place in the file
std::vector<Table> read_results(std::string_view content, const std::string& file);

}  // namespace weft::report::bandwidth
