#pragma once
// The commands of weft-plan. @param arguments after the command's word. @returns the program's exit status

#include <string>
#include <vector>

namespace weft::plan {

/// Also `weft-plan --help`. @param arguments all of the command line
int run_buckets(const std::vector<std::string>& arguments);
int run_checkpoint(const std::vector<std::string>& arguments);
int run_memory(const std::vector<std::string>& arguments);
/// 1 for a plan that does not fit the memory
int run_scale(const std::vector<std::string>& arguments);
/// 1 for a schedule given that cannot be executed as it is meant
int run_schedule(const std::vector<std::string>& arguments);

}  // namespace weft::plan
