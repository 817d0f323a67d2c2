#include "weft-plan/scale/json_values.hpp"

#include <algorithm>
#include <cmath>

#include "weft-plan/scale/unknown_name.hpp"
#include "weft/core/error.hpp"

namespace weft::scale {

void JsonValues::refuse(const char* key, const char* wanted) const {
  throw Error(ErrorKind::usage,
              text(what_, ": '", key, "' is ", has(key) ? "not " : "missing; it is ", wanted),
              "docs/scale.md has the format");
}

void JsonValues::expect_only(const std::vector<std::string>& keys) const {
  for (const auto& one : all_) {
    const std::string key(one.key());
    if (std::ranges::find(keys, key) == keys.end())
      refuse_name(text("key of ", what_).c_str(), key, keys, "docs/scale.md has the format");
  }
}

std::string JsonValues::word(const char* key) const {
  const auto* value = all_.if_contains(key);
  if (value == nullptr || !value->is_string()) refuse(key, "a string");
  return std::string(value->get_string());
}

double JsonValues::number(const char* key) const {
  const auto* value = all_.if_contains(key);
  if (value == nullptr || !value->is_number()) refuse(key, "a number");
  return value->to_number<double>();
}

std::int64_t JsonValues::count(const char* key, std::int64_t otherwise) const {
  constexpr double most = 1e15;
  if (!has(key)) return otherwise;
  const double value = number(key);
  if (!(value >= 0 && value <= most) || value != std::floor(value))
    refuse(key, "a whole number from 0 to 1e15");
  return std::llround(value);
}

bool JsonValues::is(const char* key) const {
  const auto* value = all_.if_contains(key);
  if (value != nullptr && !value->is_bool()) refuse(key, "true or false");
  return value != nullptr && value->get_bool();
}

std::vector<std::string> model_keys() {
  return {"model", "layers",     "hidden",   "heads", "kv-heads",
          "ffn",   "vocabulary", "sequence", "gated", "untied"};
}

Model model_from(const JsonValues& values, const std::string& name) {
  if (values.has("model")) return model_named(values.word("model"));
  Model model;
  model.name = name;
  model.layers = values.count("layers", 0);
  model.hidden = values.count("hidden", 0);
  model.heads = values.count("heads", 0);
  model.kv_heads = values.count("kv-heads", model.heads);
  model.ffn = values.count("ffn", 4 * model.hidden);
  model.vocabulary = values.count("vocabulary", 0);
  model.sequence = values.count("sequence", 0);
  model.gated = values.is("gated");
  model.tied = !values.is("untied");
  return model;
}

}  // namespace weft::scale
