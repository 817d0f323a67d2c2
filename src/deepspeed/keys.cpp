// Reads the table, once.

#include "deepspeed/keys.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "core/base/number.hpp"
#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

std::vector<std::string_view> cut(std::string_view row, std::string_view at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = row.find(at);
    parts.push_back(row.substr(0, end));
    if (end == std::string_view::npos) return parts;
    row.remove_prefix(end + at.size());
  }
}

[[noreturn]] void refuse(std::string_view row) {
  throw Error(ErrorKind::internal, text("a row of the table of DeepSpeed's keys cannot be read: ", row));
}

double number_of(std::string_view digits, std::string_view row) {
  const auto value = detail::number_of<double>(digits);
  if (!value) refuse(row);
  return *value;
}

/// "int>0", "number 0..1", "word a b", "list"
void read_type(Key& key, std::string_view type, std::string_view row) {
  const std::vector<std::string_view> parts = cut(type, " ");
  const std::string_view kind = parts[0].substr(0, parts[0].find('>'));
  const std::string_view above = parts[0].substr(std::min(kind.size(), parts[0].size()));
  key.least = above == ">=0" ? 0 : above == ">0" ? 1 : -no_limit;
  key.most = no_limit;
  const bool is_range = parts.size() > 1 && (kind == "int" || kind == "number");
  if (is_range) {
    const std::vector<std::string_view> limits = cut(parts[1], "..");
    if (limits.size() != 2) refuse(row);
    key.least = number_of(limits[0], row);
    key.most = number_of(limits[1], row);
  }
  const std::string limits = is_range         ? text(" from ", key.least, " to ", key.most)
                             : above == ">0"  ? " above 0"
                             : above == ">=0" ? " of 0 or more"
                                              : "";
  static const std::map<std::string_view, std::pair<KeyType, std::string>> kinds{
      {"bool", {KeyType::boolean, "true or false"}},
      {"int", {KeyType::integer, "a whole number"}},
      {"number", {KeyType::number, "a number"}},
      {"string", {KeyType::string, "a string"}},
      {"word", {KeyType::word, "one of "}},
      {"list", {KeyType::list, "a list of strings"}},
      {"pair", {KeyType::pair, "a list of two numbers"}},
      {"any", {KeyType::any, "anything"}},
      {"section", {KeyType::section, "an object with keys of its own"}}};
  const auto found = kinds.find(kind);
  if (found == kinds.end()) refuse(row);
  key.type = found->second.first;
  if (key.type == KeyType::word) key.words.assign(parts.begin() + 1, parts.end());
  key.allowed = found->second.second + limits + listed(key.words);
}

std::string as_json(std::string_view value) {
  const bool is_json = value == "null" || value == "true" || value == "false" || value.starts_with('"') ||
                       value.starts_with('[') || value.find_first_of("0123456789-") == 0;
  return is_json ? std::string(value) : json_string(value);
}

Key read_row(std::string_view row) {
  const std::vector<std::string_view> parts = cut(row, " | ");
  if (parts.size() != 2 && parts.size() != 5) refuse(row);
  Key key;
  key.path = parts[0];
  if (parts.size() == 2) {  // a section
    read_type(key, parts[1].substr(0, parts[1].find(' ')), row);
    key.fallback = parts[1].ends_with(" null") ? "null" : "";
    return key;
  }
  read_type(key, parts[1], row);
  key.fallback = as_json(parts[2]);
  static const std::map<std::string_view, KeyEffect> effects{
      {"sets", KeyEffect::sets},     {"differs", KeyEffect::differs}, {"none", KeyEffect::none},
      {"always", KeyEffect::always}, {"only", KeyEffect::only},       {"removed", KeyEffect::removed}};
  const std::vector<std::string_view> effect = cut(parts[3], " ");
  const auto found = effects.find(effect[0]);
  if (found == effects.end()) refuse(row);
  key.effect = found->second;
  if (effect.size() > 1) key.same = as_json(effect[1]);
  key.in_weft = parts[4];
  return key;
}

std::vector<Key> read_all() {
  std::vector<Key> keys;
  for (const std::string_view table : key_tables()) {
    for (const std::string_view row : cut(table, "\n")) keys.push_back(read_row(row));
  }
  return keys;
}

std::string_view section_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

}  // namespace

std::string_view Key::section() const {
  return section_of(path);
}

const std::vector<Key>& deepspeed_keys() {
  static const std::vector<Key> keys = read_all();
  return keys;
}

const Key* find_key(std::string_view path) {
  static const std::map<std::string_view, const Key*> index = [] {
    std::map<std::string_view, const Key*> all;
    for (const Key& key : deepspeed_keys()) all.emplace(key.path, &key);
    return all;
  }();
  const auto found = index.find(path);
  return found == index.end() ? nullptr : found->second;
}

bool is_checked_section(std::string_view section) {
  const std::string_view top = section.substr(0, section.find('.'));
  constexpr std::array checked{"zero_optimization", "fp16",   "bf16",        "comms_logger",
                               "hybrid_engine",     "timers", "tensorboard", "wandb",
                               "csv_monitor",       "comet",  "compile"};
  return std::ranges::find(checked, top) != checked.end();
}

std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view path) {
    if (section_of(path) == section) names.push_back(path.substr(section.empty() ? 0 : section.size() + 1));
  };
  for (const Key& key : deepspeed_keys()) add(key.path);
  for (const OtherName& other : other_names()) add(other.path);
  return names;
}

}  // namespace weft::detail
