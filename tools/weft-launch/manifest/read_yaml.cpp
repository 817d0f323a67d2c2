#include "weft-launch/manifest/value.hpp"
#include "weft/core/error.hpp"

#if WEFT_HAS_YAML

#include <yaml-cpp/yaml.h>

namespace weft::report::manifest {
namespace {

/// Turns nodes into values. An alias becomes a copy, so their number is limited: ten lines of aliases of aliases are 10^9 values.
class Reader {
 public:
  Reader(const std::string& content, const std::string& file) : content_(content), file_(file) {}

  Value read(const YAML::Node& node, int line, int depth) {
    constexpr int deepest = 64;
    constexpr int most = 200'000;
    if (depth > deepest || ++count_ > most)
      throw Error(ErrorKind::usage,
                  text(file_, " line ", line, ": no manifest: ",
                       depth > deepest ? "nested more than 64 deep" : "more than 200,000 values"));
    Value value;
    value.line = line;
    if (node.IsScalar()) read_scalar(node, value);
    if (node.IsSequence()) {
      value.kind = Value::Kind::list;
      for (const YAML::Node& item : node) value.items.push_back(read(item, line_of(item, line), depth + 1));
    }
    if (node.IsMap()) {
      value.kind = Value::Kind::map;
      for (const auto& entry : node) read_member(entry.first, entry.second, value, depth);
    }
    return value;
  }

  static int line_of(const YAML::Node& node, int otherwise) {
    return node.Mark().is_null() ? otherwise : node.Mark().line + 1;
  }

 private:
  void read_member(const YAML::Node& key, const YAML::Node& inner, Value& value, int depth) {
    const int line = line_of(key, value.line);
    if (!key.IsScalar())
      throw Error(ErrorKind::usage, text(file_, " line ", line, ": a key that is no word"),
                  "templates of Helm are to be rendered first: helm template CHART");
    value.members.push_back({key.Scalar(), line, read(inner, line, depth + 1)});
  }

  void read_scalar(const YAML::Node& node, Value& value) const {
    value.text = node.Scalar();
    const auto at = static_cast<std::size_t>(node.Mark().pos);
    value.block = at < content_.size() && (content_[at] == '|' || content_[at] == '>');
    value.quoted = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
    const bool is_null = !value.quoted && (value.text.empty() || value.text == "~" || value.text == "null");
    value.kind = is_null ? Value::Kind::null : Value::Kind::scalar;
  }

  const std::string& content_;
  const std::string& file_;
  int count_ = 0;
};

}  // namespace

std::vector<Value> read_yaml(const std::string& content, const std::string& file) {
  std::vector<Value> documents;
  try {
    Reader reader(content, file);
    for (const YAML::Node& document : YAML::LoadAll(content)) {
      Value value = reader.read(document, Reader::line_of(document, 1), 0);
      if (value.line != 0 && value) documents.push_back(std::move(value));
    }
  } catch (const YAML::Exception& failure) {
    const int line = failure.mark.is_null() ? 1 : failure.mark.line + 1;
    throw Error(ErrorKind::usage, text(file, " line ", line, ": this is not YAML: ", failure.msg),
                "see the indentation there and above; a template of Helm is to be rendered first");
  }
  return documents;
}

}  // namespace weft::report::manifest

#else

namespace weft::report::manifest {

std::vector<Value> read_yaml(const std::string& /*content*/, const std::string& file) {
  throw Error(ErrorKind::usage, text(file, " is not read: this weft is built without yaml-cpp"),
              "install libyaml-cpp-dev (launchers/setup.sh), and build anew");
}

}  // namespace weft::report::manifest

#endif
