#pragma once
// The input of the commands: values of options, and files. An error names the option or the file, its value
// and what is allowed.

#include <boost/json.hpp>
#include <boost/program_options.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace weft::plan {

/// The options that were given. Refers to the map.
class Given {
 public:
  explicit Given(const boost::program_options::variables_map& values) : values_(values) {}
  bool operator()(const char* option) const { return values_.count(option) != 0; }
  /// Calls `take` with the value of an option that was given.
  template <class Take>
  void operator()(const char* option, Take take) const {
    if ((*this)(option)) take(values_[option].as<std::string>());
  }
  std::optional<std::string> word(const char* option) const {
    if (!(*this)(option)) return std::nullopt;
    return values_[option].as<std::string>();
  }

 private:
  const boost::program_options::variables_map& values_;
};

/// All of these throw Error (usage).
[[noreturn]] void refuse(const char* option, const std::string& word, const std::string& allowed);
std::int64_t number(const char* option, const std::string& word, std::int64_t least, std::int64_t most);
double real(const char* option, const std::string& word, double least, double most,
            const std::string& allowed);
/// 0 to 1.
double share(const char* option, const std::string& word);

/// A file or a pipe. @throws Error (usage) if it cannot be read
std::string read_text(const std::string& path);
/// @throws Error (usage) for a file that cannot be read or is no JSON
boost::json::value read_json(const std::string& path);

}  // namespace weft::plan
