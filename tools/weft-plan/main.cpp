#include <iostream>

#include "buckets.hpp"
#include "common/command_line.hpp"
#include "memory.hpp"
#include "schedule.hpp"

namespace {

int run(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == "memory")
    return weft::plan::run_memory({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == "schedule")
    return weft::plan::run_schedule({arguments.begin() + 1, arguments.end()});
  const weft::plan::Options options = weft::plan::parse(arguments);
  if (options.help) {
    std::cout << weft::plan::help();
    return 0;
  }
  const weft::plan::Profile profile = weft::plan::read_profile(options.file);
  weft::plan::explain_buckets(options, profile, options.json == "-" ? std::cerr : std::cout);
  if (options.json) weft::tool::write(*options.json, weft::plan::buckets_json(options, profile));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("weft-plan", argc, argv, run);
}
