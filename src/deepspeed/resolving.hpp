#pragma once
// The steps from a text to a Config, and what reads a Config again.

#include <string>
#include <string_view>

#include "deepspeed/hjson.hpp"
#include "deepspeed/keys.hpp"
#include "weft/deepspeed/config.hpp"

namespace weft::detail {

/// "ds.json:7: PROBLEM"; without a line where that is 0.
[[noreturn]] void refuse_config(const std::string& called, int line, const std::string& problem,
                                const std::string& advice = {});

/// The value in the key's type: 5e8 is 500000000. In a checked section strings that say a number or a bool are taken, as pydantic does.
/// @throws Error (usage)
Node coerced(const Key& key, const Node& value, const std::string& called);

/// What the file leaves out of the batch sizes, and overlap_comm. @throws Error (usage) if values contradict each other
void derive(deepspeed::Config& config);

/// The rule of the section "optimizer", which is there. @throws Error (usage) for a rule that weft does not have
zero::Optimizer optimizer_rule(const deepspeed::Config& config);

/// In lower case.
std::string lowered(std::string word);

/// Whether two values as JSON are the same: 1 and 1.0 are.
bool same_json(std::string_view a, std::string_view b);

/// A Config by keys. A key in a section that is left out has its default.
class Settings {
 public:
  explicit Settings(const deepspeed::Config& config) : config_(config) {}

  bool is_null(std::string_view key) const { return value(key) == "null"; }
  bool boolean(std::string_view key) const { return value(key) == "true"; }
  double number(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  /// Without its quotes.
  std::string word(std::string_view key) const;
  bool in_file(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, const std::string& why,
                           const std::string& advice = {}) const;

 private:
  std::string value(std::string_view key) const;

  const deepspeed::Config& config_;
};

}  // namespace weft::detail
