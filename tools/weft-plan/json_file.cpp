#include "json_file.hpp"

#include <fstream>
#include <sstream>

#include "weft/core/error.hpp"

namespace weft::plan {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  if (!(file && content << file.rdbuf())) throw Error(ErrorKind::usage, text("cannot read '", path, "'"));
  return std::move(content).str();
}

boost::json::value read_json(const std::string& path) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(read_text(path), error);
  if (error) throw Error(ErrorKind::usage, text("'", path, "' is no JSON: ", error.message()));
  return value;
}

}  // namespace weft::plan
