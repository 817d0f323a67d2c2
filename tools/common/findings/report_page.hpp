#pragma once
// A report as one HTML page without scripts and without other files: verdict, findings with their lines, tables and drawings.
//
//   report.sections = {rank_matrix(run), transport_graph(run)};
//   write("report.html", to_html(report));

#include <string>

#include "common/findings/report.hpp"

namespace weft::report {

std::string to_html(const Report& report);

}  // namespace weft::report
