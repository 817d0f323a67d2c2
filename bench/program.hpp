#pragma once
// Error handling of every bench: one line that names the program, and the exit status of the kind of error.

#include <cstdio>
#include <string_view>

#include "weft/core/error.hpp"

namespace weft::bench {

/// @param run takes argc and argv, and gives the exit status
template <class Run>
int program(int argc, char** argv, const Run& run) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    const std::string_view path = argv[0];
    std::fprintf(stderr, "%s: %s\n", path.substr(path.rfind('/') + 1).data(), error.what());
    return exit_code(error.kind());
  }
}

}  // namespace weft::bench
