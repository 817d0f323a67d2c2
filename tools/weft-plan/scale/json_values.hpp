#pragma once
// The values of a JSON object by the names that options have: what a file of a model and the runs of a
// hardware file are read with.

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "weft-plan/scale/model.hpp"

namespace weft::scale {

class JsonValues {
 public:
  /// @param what names the object in errors
  JsonValues(const boost::json::object& all, std::string what) : all_(all), what_(std::move(what)) {}

  /// @throw Error (usage) for another key, with the nearest of these
  void expect_only(const std::vector<std::string>& keys) const;
  bool has(const char* key) const { return all_.contains(key); }
  /// All @throw Error (usage), which names the object and the key.
  std::string word(const char* key) const;
  std::string word(const char* key, const char* otherwise) const { return has(key) ? word(key) : otherwise; }
  double number(const char* key) const;
  std::int64_t count(const char* key, std::int64_t otherwise) const;
  bool is(const char* key) const;

 private:
  [[noreturn]] void refuse(const char* key, const char* wanted) const;

  const boost::json::object& all_;
  std::string what_;
};

/// The keys below.
std::vector<std::string> model_keys();
/// {"model": NAME}, or {"layers", "hidden", "heads", "kv-heads", "ffn", "vocabulary", "sequence", "gated",
/// "untied"}
Model model_from(const JsonValues& values, const std::string& name);

}  // namespace weft::scale
