#pragma once
// The commands of weft-report. @param arguments after the command's word. @returns the program's exit status

#include <string>
#include <vector>

namespace weft::report {

int diff_command(const std::vector<std::string>& arguments);
int env_command(const std::vector<std::string>& arguments);
int flight_command(const std::vector<std::string>& arguments);
int inspector_command(const std::vector<std::string>& arguments);
int nccl_command(const std::vector<std::string>& arguments);
int ras_command(const std::vector<std::string>& arguments);
int tune_command(const std::vector<std::string>& arguments);
int watch_command(const std::vector<std::string>& arguments);

}  // namespace weft::report
