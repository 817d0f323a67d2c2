#include <iostream>

#include "commands.hpp"
#include "common/command_line.hpp"
#include "options.hpp"
#include "weft/core/error.hpp"

namespace {

int run(const std::vector<std::string>& arguments) {
  using namespace weft::report;
  const std::string word = arguments.empty() ? "" : arguments.front();
  if (word == "flight") return flight_command({arguments.begin() + 1, arguments.end()});
  if (word == "env") return env_command({arguments.begin() + 1, arguments.end()});
  if (word == "nccl") return nccl_command({arguments.begin() + 1, arguments.end()});
  if (word == "ras") return ras_command({arguments.begin() + 1, arguments.end()});
  if (word == "watch") return watch_command({arguments.begin() + 1, arguments.end()});
  if (word == "diff") return diff_command({arguments.begin() + 1, arguments.end()});
  if (word == "inspector") return inspector_command({arguments.begin() + 1, arguments.end()});
  if (word == "tune") return tune_command({arguments.begin() + 1, arguments.end()});
  if (word == "--help" || word == "-h") {
    std::cout << help();
    return 0;
  }
  throw weft::Error(
      weft::ErrorKind::usage,
      word.empty() ? "nothing to report on is named" : weft::text("'", word, "' is nothing to report on"),
      "allowed is flight, env, nccl, ras, watch, diff, inspector or tune: weft-report flight DIR, "
      "weft-report "
      "env, weft-report nccl PATH..., weft-report ras, weft-report watch, weft-report diff A B, weft-report "
      "inspector DIR, weft-report tune -- COMMAND");
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("weft-report", argc, argv, run);
}
