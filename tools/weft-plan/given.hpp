#pragma once
// Options as words, and what words have to be: each refusal names the option, its word and what is allowed.

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
  /// Calls what stands for an option with its word, where it was given.
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

/// @throws Error (usage), all of these
[[noreturn]] void refuse(const char* option, const std::string& word, const std::string& allowed);
std::int64_t number(const char* option, const std::string& word, std::int64_t least, std::int64_t most);
double real(const char* option, const std::string& word, double least, double most,
            const std::string& allowed);
/// 0 to 1.
double share(const char* option, const std::string& word);

}  // namespace weft::plan
