#include "input.hpp"

#include "core/base/number.hpp"
#include "core/files/input_file.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

/// Reads the whole word as a number within bounds; NaN is out of bounds.
template <class T>
bool reads(const std::string& word, T least, T most, T& value) {
  const auto read = detail::number_of<T>(word);
  value = read.value_or(value);
  return read && value >= least && value <= most;
}

}  // namespace

void refuse(const char* option, const std::string& word, const std::string& allowed) {
  throw Error(ErrorKind::usage, text("--", option, " ", word, " is not ", allowed));
}

std::int64_t number(const char* option, const std::string& word, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  if (!reads(word, least, most, value)) refuse(option, word, text("a number from ", least, " to ", most));
  return value;
}

double real(const char* option, const std::string& word, double least, double most,
            const std::string& allowed) {
  double value = 0;
  if (!reads(word, least, most, value)) refuse(option, word, allowed);
  return value;
}

double share(const char* option, const std::string& word) {
  return real(option, word, 0, 1, "a share from 0 to 1");
}

std::string read_text(const std::string& path) {
  return detail::read_input(path, text("'", path, "'"), {.source = detail::Source::file_or_pipe});
}

boost::json::value read_json(const std::string& path) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(read_text(path), error);
  if (error) throw Error(ErrorKind::usage, text("'", path, "' is no JSON: ", error.message()));
  return value;
}

}  // namespace weft::plan
