// The files of tests/deepspeed/cases against what DeepSpeed's own parser made of them (tests/deepspeed/expected.py).

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/files/input_file.hpp"
#include "deepspeed/hjson.hpp"
#include "deepspeed/keys.hpp"
#include "weft/deepspeed/config.hpp"

namespace weft::deepspeed {
namespace {

using detail::Node;

const std::string folder = WEFT_SOURCE_DIR "/tests/deepspeed/";

std::string content(const std::string& name) {
  return detail::read_input(folder + name, name);
}

const Node* member(const Node& object, std::string_view name) {
  for (const detail::Member& one : object.members) {
    if (one.name == name) return &one.value;
  }
  return nullptr;
}

using Values = std::map<std::string, std::string>;

void put(const Node& object, Values& values) {
  for (const detail::Member& one : object.members) values[one.name] = detail::to_json(one.value);
}

/// As `to_json` writes a value that was read, so that 1.0 and 1 are the same.
std::string normal(const std::string& json) {
  return detail::to_json(detail::read_hjson("{\"value\": " + json + "\n}", "a value").members[0].value);
}

/// What DeepSpeed's parser does not have, or keeps as it stands.
bool is_not_compared(const detail::Key& key) {
  static const std::set<std::string_view> ours{"sequence_parallel_size",
                                               "data_parallel_size",
                                               "vocabulary_size",
                                               "zero_optimization.mics_shard_size",
                                               "zero_optimization.mics_hierarchical_params_gather",
                                               "torch_autocast.dtype",
                                               "torch_autocast.lower_precision_safe_modules"};
  const bool is_kept =
      key.type == detail::KeyType::any && key.path != "scheduler.params" && key.path != "pipeline.stages";
  return ours.contains(key.path) || is_kept || key.path.starts_with("comms_logger.") ||
         key.path.starts_with("optimizer") || key.path == "scheduler" || key.path == "autotuning.model_info";
}

TEST(DeepSpeedCases, ResolveToTheValuesOfDeepSpeed) {
  const Node told = detail::read_hjson(content("expected.json"), "expected.json");
  ASSERT_EQ(member(told, "deepspeed")->text, "0.19.8");
  int resolved = 0, refused = 0;
  for (const detail::Member& one : member(told, "cases")->members) {
    SCOPED_TRACE(one.name);
    const int ranks = static_cast<int>(*member(one.value, "ranks")->integer);
    const std::string text = content("cases/" + one.name + ".json");
    if (member(one.value, "refused") != nullptr) {
      EXPECT_THROW((void)parse(text, ranks, one.name), Error);
      ++refused;
      continue;
    }
    Values values;
    put(*member(told, "defaults"), values);
    put(*member(one.value, "values"), values);
    for (const Node& name : member(one.value, "without")->items) values.erase(name.text);
    const Config config = parse(text, ranks, one.name);
    for (const auto& [key, value] : values) {
      if (detail::find_key(key) == nullptr) {
        ADD_FAILURE() << "weft does not know " << key;
        continue;
      }
      const Setting* const setting = config.find(key);
      if (setting == nullptr || setting->value.empty()) {
        ADD_FAILURE() << "no value of " << key << ", which is " << value;
        continue;
      }
      EXPECT_EQ(normal(setting->value), value) << key;
    }
    for (const Setting& setting : config.settings) {
      const detail::Key& key = *detail::find_key(setting.key);
      EXPECT_TRUE(is_not_compared(key) || values.contains(setting.key))
          << "DeepSpeed gives no " << setting.key;
    }
    ++resolved;
  }
  EXPECT_EQ(resolved, 60);
  EXPECT_EQ(refused, 25);
}

}  // namespace
}  // namespace weft::deepspeed
