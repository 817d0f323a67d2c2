#pragma once
// A document of YAML as a plain tree whose every part knows its line, and how one is read. Read once, then any thread may look at it.
//
//   for (const Value& document : read_yaml(content, "job.yaml")) use(document["spec"]["template"]["spec"]["containers"].items);
//
// What is not there is a null value: no look-up fails. WRONG: keeping document["a"] longer than the vector that read_yaml() returned.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::report::manifest {

struct Member;

struct Value {
  enum class Kind : std::uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text{};          ///< of a scalar
  bool quoted = false;         ///< or a block: always text
  bool block = false;          ///< its text begins on the line after `line`
  int line = 0;                ///< of its key, or of itself within a list; 0: it is not there
  std::vector<Value> items{};  ///< of a list
  /// Of a map, in the file's order; a key that is there twice is here twice.
  std::vector<Member> members;

  /// Null where this is no map, or has no such key.
  const Value& operator[](std::string_view key) const;
  const Value& at(std::size_t index) const;
  explicit operator bool() const { return kind != Kind::null; }
  bool is(std::string_view word) const { return kind == Kind::scalar && text == word; }
  bool is_true() const { return !quoted && is("true"); }
  /// None where it is no whole number from 0 to 2^31 - 1, which is what counts of Kubernetes are.
  std::optional<long> number() const;
  /// It is there, and no count: form_rules() says so, and what would be computed from it says nothing.
  bool is_no_count() const { return kind != Kind::null && !number(); }
  /// It is to be filled in before: $NODES, ${NODES}, __NODES__, <nodes>, PLACEHOLDER_NODES.
  bool is_placeholder() const;
  /// What a parser of YAML 1.1 takes for a number or a truth value, where Kubernetes wants text.
  bool is_no_text() const;
};

struct Member {
  std::string key;
  int line = 0;
  Value value{};
};

/// All documents; empty ones are left out. @throws Error (usage) "job.yaml line 3: ..." for what is not YAML, and where this build has no
/// parser (without yaml-cpp)
std::vector<Value> read_yaml(const std::string& content, const std::string& file);

}  // namespace weft::report::manifest
