#include <iostream>

#include "commands.hpp"
#include "common/command_line.hpp"

namespace {

int run(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == "checkpoint")
    return weft::plan::run_checkpoint({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == "memory")
    return weft::plan::run_memory({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == "scale")
    return weft::plan::run_scale({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == "schedule")
    return weft::plan::run_schedule({arguments.begin() + 1, arguments.end()});
  return weft::plan::run_buckets(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("weft-plan", argc, argv, run);
}
