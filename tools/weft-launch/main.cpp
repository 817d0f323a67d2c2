#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "common/command_line.hpp"
#include "env_command.hpp"
#include "host_command.hpp"
#include "lint_command.hpp"
#include "options.hpp"
#include "run_command.hpp"

namespace {

int run(const std::vector<std::string>& arguments) {
  using namespace weft::launch;
  if (!arguments.empty() && arguments.front() == "env") {
    const EnvOptions options = parse_env({arguments.begin() + 1, arguments.end()});
    if (options.help) {
      std::cout << env_help();
    } else {
      print_environment(options, weft::Environment::of_process());
    }
    return 0;
  }
  if (!arguments.empty() && arguments.front() == "lint")
    return run_lint({arguments.begin() + 1, arguments.end()});
  if (arguments == std::vector<std::string>{"host"}) return run_host();
  const RunOptions options = parse_run(arguments);
  if (options.help) {
    std::cout << run_help();
    return 0;
  }
  std::vector<std::string> inherited;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) inherited.emplace_back(*line);
  return run_job(options, inherited);
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("weft-launch", argc, argv, run);
}
