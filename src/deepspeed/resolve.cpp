// From a text to a Config: each key that the file has is found in the table, its value is brought to the key's type, and defaults are added
// for the others.

#include <algorithm>
#include <map>
#include <set>

#include "core/base/strings.hpp"
#include "core/files/input_file.hpp"
#include "deepspeed/resolving.hpp"
#include "weft/core/error.hpp"

namespace weft::deepspeed {
namespace {

using namespace weft::detail;

constexpr std::size_t most_bytes = std::size_t{1} << 20;

std::string joined(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : text(section, ".", name);
}

Node word_node(const char* word, int line) {
  Node node;
  node.kind = Node::Kind::string;
  node.line = line;
  node.text = word;
  return node;
}

/// What the file says of a key.
struct Given {
  Node value;
  std::string written;  // as the file names it
  bool is_automatic = false;
};

/// A key that the table does not have.
struct Unknown {
  std::string written;
  int line = 0;
  std::string belongs;  ///< what is meant, or where DeepSpeed has it; empty: nothing is like it
};

/// "_comment", "//", "comment_1": text for people. DeepSpeed passes over it where it does not check a section.
bool is_comment(std::string_view name, std::string_view section) {
  const bool looks_so =
      name.starts_with('_') || name.starts_with("//") || name.starts_with('#') || name.starts_with("comment");
  return looks_so && !is_checked_section(section);
}

std::string any_of(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all.append(all.empty() ? "" : " or ").append(name);
  return all;
}

/// The name in this section that is meant, or the sections that have a key of this name; empty where they are many.
std::string place_of(std::string_view name, std::string_view section) {
  if (const auto near = nearest_name(names_in(section), name)) return text("did you mean ", *near, "?");
  std::vector<std::string> places;
  for (const Key& key : deepspeed_keys()) {
    if (key.path.ends_with(text(".", name)) || (key.path == name && !section.empty()))
      places.emplace_back(key.path);
  }
  constexpr std::size_t most = 3;
  if (places.empty() || places.size() > most) return {};
  return text("did you mean ", any_of(places), "? That is where DeepSpeed has it");
}

class Resolver {
 public:
  Resolver(Config& config) : config_(config) {}

  void run(const Node& root) {
    refuse_unknown(root);
    walk(root, "", "");
    if (!automatic_.empty())
      refuse_config(config_.called, 0, text("\"auto\" is not DeepSpeed's here: ", listed(automatic_)),
                    "write the values that Hugging Face's Trainer would fill in");
    for (const Key& key : deepspeed_keys()) add(key);
    name_without_effect();
  }

 private:
  void walk(const Node& object, const std::string& section, const std::string& written) {
    for (const Member& member : object.members) take(member, section, joined(written, member.name));
  }

  /// All of them at once: who wrote one key into the wrong section wrote its neighbours there, too.
  void refuse_unknown(const Node& root) {
    std::vector<Unknown> all;
    look_for_unknown(root, "", "", all);
    if (all.empty()) return;
    const Unknown& first = all.front();
    if (all.size() == 1)
      refuse_config(config_.called, first.line, text(json_string(first.written), " is no key of DeepSpeed"),
                    first.belongs.empty() ? "docs/deepspeed.md has all keys" : first.belongs);
    std::string each;
    for (const Unknown& one : all)
      each += text(each.empty() ? "" : "; ", json_string(one.written), " (line ", one.line, ")",
                   one.belongs.empty() ? "" : ": ", one.belongs);
    refuse_config(config_.called, first.line, text(all.size(), " keys are none of DeepSpeed: ", each),
                  "docs/deepspeed.md has all keys");
  }

  void look_for_unknown(const Node& object, const std::string& section, const std::string& written,
                        std::vector<Unknown>& all) {
    for (const Member& member : object.members) {
      std::string path = joined(section, member.name);
      const auto other = std::ranges::find(other_names(), path, &OtherName::path);
      if (other != other_names().end() && !other->deprecated.empty()) continue;
      if (other != other_names().end()) path = other->means;
      const Key* const key = find_key(path);
      const std::string named = joined(written, member.name);
      if (key == nullptr && is_comment(member.name, section))
        config_.notices.push_back(
            text(config_.called, ":", member.value.line, ": ", named, " is taken for a comment"));
      else if (key == nullptr)
        all.push_back({named, member.value.line, place_of(member.name, section)});
      else if (key->type == KeyType::section && member.value.kind == Node::Kind::object)
        look_for_unknown(member.value, path, named, all);
    }
  }

  void take(const Member& member, const std::string& section, const std::string& written) {
    std::string path = joined(section, member.name);
    for (const OtherName& other : other_names()) {
      if (other.path != path) continue;
      if (!other.deprecated.empty()) return deprecated(other, member.value, written);
      path = other.means;
    }
    const Key* const key = find_key(path);
    if (key == nullptr) return;  // a comment: refuse_unknown() has refused all else
    if (key->type == KeyType::section) return take_section(*key, member.value, written);
    give(*key, member.value, written);
  }

  void take_section(const Key& key, const Node& value, const std::string& written) {
    const std::string path(key.path);
    if (value.kind == Node::Kind::null && key.fallback == "null") return;
    if (value.kind == Node::Kind::string && value.text == "auto" && is_checked_section(path) &&
        path.find('.') != std::string::npos)
      return;
    if (path == "zero_optimization" && value.kind == Node::Kind::boolean) return old_zero(value);
    if (value.kind != Node::Kind::object)
      refuse_config(config_.called, value.line, text(written, " is ", to_json(value)),
                    text("it is ", key.allowed));
    begin_section(path, value.line, written);
    walk(value, path, written);
  }

  void begin_section(const std::string& path, int line, const std::string& written) {
    const auto [first, is_new] = sections_.emplace(path, std::pair(line, written));
    if (!is_new)
      refuse_config(
          config_.called, line,
          text(written, " and ", first->second.second, " (line ", first->second.first, ") are the same"),
          "give one");
  }

  void give(const Key& key, const Node& value, const std::string& written) {
    if (key.effect == KeyEffect::removed)
      refuse_config(config_.called, value.line, text(written, " is a key that DeepSpeed has removed"),
                    std::string(key.in_weft));
    Given given{value, written};
    if (value.kind == Node::Kind::string && value.text == "auto" && key.type != KeyType::any) {
      given.is_automatic = is_checked_section(key.section());
      if (!given.is_automatic) automatic_.push_back(text(written, " (line ", value.line, ")"));
    } else {
      given.value = coerced(key, value, config_.called);
    }
    const auto [first, is_new] = given_.emplace(key.path, given);
    if (!is_new)
      refuse_config(config_.called, value.line,
                    text(written, " and ", first->second.written, " (line ", first->second.value.line,
                         ") are the same"),
                    "give one");
  }

  /// Old names whose value is not the new key's.
  void deprecated(const OtherName& other, const Node& value, const std::string& written) {
    config_.notices.push_back(
        text(config_.called, ":", value.line, ": ", written, " is deprecated: ", other.deprecated));
    const Key& key = *find_key(other.means);
    if (other.path == "allgather_size") {
      allgather_size_ = Given{coerced(key, value, config_.called), written};
      return;
    }
    if (!key.path.ends_with(".device") && !key.path.ends_with(".pin_memory"))
      return give(key, value, written);
    // A bool that stands for a section, or for nothing.
    static const Key flag = *find_key("zero_optimization.reduce_scatter");
    Key named = flag;
    named.path = other.path;
    const bool is_automatic = value.kind == Node::Kind::string && value.text == "auto";
    const bool on =
        !is_automatic && value.kind != Node::Kind::null && coerced(named, value, config_.called).boolean;
    if (!key.path.ends_with(".device") || is_automatic) return;
    begin_section(std::string(key.section()), value.line, written);
    if (!on) sections_off_.insert(std::string(key.section()));
    if (on) give(key, word_node("cpu", value.line), written);
  }

  void old_zero(const Node& value) {
    config_.notices.push_back(text(config_.called, ":", value.line,
                                   ": zero_optimization is deprecated as true or false: write {\"stage\": ",
                                   value.boolean ? 1 : 0, "}"));
    begin_section("zero_optimization", value.line, "zero_optimization");
    Node stage;
    stage.kind = Node::Kind::number;
    stage.line = value.line;
    stage.integer = value.boolean ? 1 : 0;
    stage.number = value.boolean ? 1 : 0;
    give(*find_key("zero_optimization.stage"), stage, "zero_optimization");
    is_old_ = value.boolean;
  }

  /// Whether the optional sections around it are there.
  bool is_there(std::string_view section) const {
    while (!section.empty()) {
      const Key& key = *find_key(section);
      const bool given = sections_.contains(key.path) && !sections_off_.contains(std::string(key.path));
      if (key.fallback == "null" && !given) return false;
      section = key.section();
    }
    return true;
  }

  void add(const Key& key) {
    if (key.effect == KeyEffect::removed || !is_there(key.section())) return;
    if (key.type == KeyType::section && (key.fallback != "null" || is_there(key.path))) return;
    Setting setting;
    setting.key = key.path;
    setting.value = key.fallback;
    setting.in_weft = in_weft(key);
    if (is_old_ && allgather_size_ && key.path == "zero_optimization.allgather_bucket_size")
      given_.emplace(key.path, *allgather_size_);
    if (const auto found = given_.find(key.path); found != given_.end()) {
      const Given& given = found->second;
      setting.line = given.value.line;
      setting.origin = given.is_automatic ? Origin::automatic : Origin::file;
      if (!given.is_automatic) setting.value = to_json(given.value);
      if (given.written != key.path) setting.written = given.written;
      if (!given.is_automatic) name(key, setting);
    }
    config_.settings.push_back(std::move(setting));
  }

  static std::string in_weft(const Key& key) {
    switch (key.effect) {
      case KeyEffect::none:
        return text("no effect: ", key.in_weft);
      case KeyEffect::always:
        return text("always ", key.same, ": ", key.in_weft);
      case KeyEffect::only:
        return text("only ", key.same, ": ", key.in_weft);
      case KeyEffect::sets:
      case KeyEffect::differs:
      case KeyEffect::removed:
        break;
    }
    return std::string(key.in_weft);
  }

  /// What the file has and weft does otherwise, or not at all.
  void name(const Key& key, const Setting& setting) {
    if (key.effect == KeyEffect::none)
      without_effect_.push_back(text(key.path, " (line ", setting.line, ")"));
    const bool differs = key.effect == KeyEffect::differs && !same_json(setting.value, key.fallback);
    const bool is_other = key.effect == KeyEffect::always && !same_json(setting.value, key.same);
    if (differs || is_other)
      config_.notices.push_back(
          text(config_.called, ":", setting.line, ": ", key.path, " is ", setting.value, ": ", key.in_weft));
  }

  void name_without_effect() {
    if (!without_effect_.empty())
      config_.notices.push_back(text(config_.called, ": without effect in weft: ", listed(without_effect_)));
  }

  Config& config_;
  std::map<std::string, Given, std::less<>> given_;
  std::map<std::string, std::pair<int, std::string>, std::less<>> sections_;  // line and name in the file
  std::set<std::string> sections_off_;                                        // by a deprecated name
  std::vector<std::string> automatic_;
  std::vector<std::string> without_effect_;
  std::optional<Given> allgather_size_;
  bool is_old_ = false;  // zero_optimization: true
};

}  // namespace

Config parse(std::string_view text, int ranks, const std::string& called) {
  Config config;
  config.called = called;
  config.ranks = ranks;
  if (ranks < 1) refuse_config(called, 0, weft::text("a job of ", ranks, " ranks"), "it has 1 or more");
  if (text.size() > most_bytes)
    refuse_config(called, 0, weft::text("it has more than ", most_bytes, " bytes"));
  Resolver(config).run(read_hjson(text, called));
  derive(config);
  return config;
}

Config read(const std::string& path, int ranks) {
  return parse(read_input(path, path, {.most = most_bytes}), ranks, path);
}

const Setting* Config::find(std::string_view key) const {
  for (const Setting& setting : settings) {
    if (setting.key == key) return &setting;
  }
  if (find_key(key) == nullptr)
    throw Error(ErrorKind::usage, text("deepspeed::Config has no key ", key),
                "docs/deepspeed.md has all keys");
  return nullptr;
}

}  // namespace weft::deepspeed
