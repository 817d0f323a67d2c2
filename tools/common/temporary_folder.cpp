#include "common/temporary_folder.hpp"

#include <cstdlib>
#include <filesystem>

#include "weft/core/error.hpp"

namespace weft::tool {

std::string temporary_folder() {
  const char* const given = std::getenv("TMPDIR");
  const std::string folder = given != nullptr && *given != '\0' ? given : "/tmp";
  std::error_code failed;
  if (std::filesystem::is_directory(folder, failed)) return folder;
  throw Error(ErrorKind::usage,
              text("TMPDIR=", folder, " is no folder", failed ? ": " + failed.message() : std::string()),
              "make it, or set TMPDIR to a folder that can be written");
}

}  // namespace weft::tool
