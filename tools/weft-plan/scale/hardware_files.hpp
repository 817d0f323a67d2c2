#pragma once
// The hardware files as they were when the program was built.

#include <string_view>
#include <vector>

namespace weft::scale {

struct BuiltInFile {
  std::string_view name;
  std::string_view text;
};

const std::vector<BuiltInFile>& hardware_files();

}  // namespace weft::scale
