#pragma once
// The files that every command of weft-report can write: --json, --sarif, --markdown and --html.

#include <boost/program_options.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/findings/report.hpp"
#include "common/outputs.hpp"

namespace weft::report {

/// The path of each option that was given, by its name: "--html".
using OutputFiles = std::map<std::string, std::optional<std::string>>;

/// @param json what stands in the file of --json: "findings and hosts"
void add_output_options(boost::program_options::options_description& description, const std::string& json);
OutputFiles output_files(const boost::program_options::variables_map& values);
bool is_output_option(const std::string& word);

/// @throws Error (usage) for a file that cannot be written
void open(const OutputFiles& files, tool::Outputs& outputs);
/// Writes the files that were opened. @param json gives the text of --json @param as_page adds to the report what only --html shows
void write(tool::Outputs& outputs, Report report, const std::function<std::string()>& json,
           const std::function<void(Report&)>& as_page = {});

}  // namespace weft::report
