#include "deepspeed/keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "core/base/strings.hpp"
#include "core/files/input_file.hpp"
#include "deepspeed/resolving.hpp"
#include "weft/core/error.hpp"
#include "weft/deepspeed/config.hpp"

namespace weft::detail {
namespace {

/// A file with one key, which is `name` in `section`.
std::string file_with(std::string_view section, const std::string& name, const std::string& value) {
  std::string text = json_string(name) + ": " + value;
  while (!section.empty()) {
    const std::size_t dot = section.rfind('.');
    const std::string_view last = section.substr(dot == std::string_view::npos ? 0 : dot + 1);
    text = json_string(last) + ": {" + text + "\n}";
    section = section.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  return "{" + text + "\n}";
}

std::string refusal_of(const std::string& text) {
  try {
    (void)deepspeed::parse(text, 1, "ds.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> with_one_letter_off(const std::string& name) {
  const std::size_t middle = name.size() / 2;
  std::string extra = name, missing = name, other = name, exchanged = name;
  extra.insert(middle, 1, 'q');
  missing.erase(middle, 1);
  other[middle] = other[middle] == 'q' ? 'k' : 'q';
  std::swap(exchanged[middle - 1], exchanged[middle]);
  return {extra, missing, other, exchanged};
}

TEST(DeepSpeedKeys, EachWithOneLetterOffIsRefusedWithTheRightName) {
  std::set<std::pair<std::string_view, std::string>> names;
  for (const Key& key : deepspeed_keys())
    names.emplace(key.section(), key.path.substr(key.section().empty() ? 0 : key.section().size() + 1));
  for (const OtherName& other : other_names()) {
    const std::string_view section = other.path.starts_with("zero_optimization.") ? "zero_optimization" : "";
    names.emplace(section, other.path.substr(section.empty() ? 0 : section.size() + 1));
  }
  EXPECT_GT(names.size(), 250U);
  int tried = 0;
  for (const auto& [section, name] : names) {
    for (const std::string& wrong : with_one_letter_off(name)) {
      const std::vector<std::string_view> known = names_in(section);
      if (std::ranges::find(known, wrong) != known.end() || wrong == name) continue;
      const std::string refusal = refusal_of(file_with(section, wrong, "1"));
      const std::string path = section.empty() ? wrong : text(section, ".", wrong);
      EXPECT_NE(refusal.find("ds.json:"), std::string::npos) << refusal;
      EXPECT_NE(refusal.find(text("\"", path, "\" is no key of DeepSpeed")), std::string::npos) << refusal;
      // Another name may be as near: fp16 and bf16.
      const std::size_t asks = refusal.find("did you mean ");
      ASSERT_NE(asks, std::string::npos) << refusal;
      const std::string named = refusal.substr(asks + 13, refusal.rfind('?') - asks - 13);
      EXPECT_TRUE(named == name || edit_distance(named, wrong) == edit_distance(name, wrong))
          << path << " is " << name << ", and not " << named;
      ++tried;
    }
  }
  EXPECT_GT(tried, 1000);
}

TEST(DeepSpeedKeys, DefaultsAreOfTheirKeysTypes) {
  for (const Key& key : deepspeed_keys()) {
    if (key.type == KeyType::section) continue;
    SCOPED_TRACE(key.path);
    const Node value = read_hjson("{\"value\": " + key.fallback + "\n}", "a default").members[0].value;
    EXPECT_EQ(to_json(coerced(key, value, "ds.json")), to_json(value));
    EXPECT_EQ(key.same.empty(), key.effect != KeyEffect::always && key.effect != KeyEffect::only);
    EXPECT_FALSE(key.in_weft.empty());
    EXPECT_TRUE(key.section().empty() || find_key(key.section()) != nullptr) << "no row of its section";
  }
  for (const OtherName& other : other_names()) EXPECT_NE(find_key(other.means), nullptr) << other.path;
}

TEST(DeepSpeedKeys, ATypeIsExpectedOfEach) {
  for (const Key& key : deepspeed_keys()) {
    if (key.type == KeyType::any || key.effect == KeyEffect::removed) continue;
    const std::size_t from = key.section().empty() ? 0 : key.section().size() + 1;
    const bool is_string =
        key.type == KeyType::string || key.type == KeyType::list || key.type == KeyType::word;
    const std::string refusal = refusal_of(file_with(key.section(), std::string(key.path.substr(from)),
                                                     is_string ? "{}" : "\"nothing of that\""));
    EXPECT_NE(refusal.find(text(key.path, " is ")), std::string::npos) << key.path << ": " << refusal;
    EXPECT_NE(refusal.find(key.allowed), std::string::npos) << key.path << ": " << refusal;
  }
}

/// What docs/deepspeed.md has to say of the keys.
std::string rows_of_the_page() {
  std::string table = "| key | default | in weft |\n|---|---|---|\n", removed;
  std::vector<std::pair<std::string, std::string>> without;  // of a section
  for (const Key& key : deepspeed_keys()) {
    const std::string quoted = text("`", key.path, "`");
    const std::string section = key.section().empty() ? "at the top" : text("`", key.section(), "`");
    if (key.type == KeyType::section) continue;
    if (key.effect == KeyEffect::removed) {
      removed += text("- ", quoted, ": ", key.in_weft, "\n");
    } else if (key.effect == KeyEffect::none) {
      auto one = std::ranges::find(without, section, &std::pair<std::string, std::string>::first);
      if (one == without.end()) one = without.insert(one, {section, ""});
      const std::size_t from = key.section().empty() ? 0 : key.section().size() + 1;
      one->second += text(one->second.empty() ? "" : ", ", "`", key.path.substr(from), "`");
    } else {
      const char* const limit = key.effect == KeyEffect::always ? "always "
                                : key.effect == KeyEffect::only ? "only "
                                                                : "";
      table += text("| ", quoted, " | ", key.fallback, " | ", limit, key.same, key.same.empty() ? "" : ": ",
                    key.in_weft, " |\n");
    }
  }
  for (const auto& [section, names] : without) table += text("- ", section, ": ", names, "\n");
  return table + removed;
}

TEST(DeepSpeedKeys, ThePageHasThemAll) {
  const std::string page = read_input(WEFT_SOURCE_DIR "/docs/deepspeed.md", "docs/deepspeed.md");
  std::istringstream rows(rows_of_the_page());
  for (std::string row; std::getline(rows, row);)
    EXPECT_NE(page.find("\n" + row + "\n"), std::string::npos) << "docs/deepspeed.md lacks: " << row;
  for (std::size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1)) {
    const std::string name = page.substr(at + 4, page.find('`', at + 4) - at - 4);
    EXPECT_NE(find_key(name), nullptr) << "docs/deepspeed.md has a row of " << name;
  }
}

}  // namespace
}  // namespace weft::detail
