#pragma once
// The values that a pickle or a JSON text states, without running anything that it asks for.
//
// A pickle is a program for a small stack machine. Most of its instructions push plain values, and some call any function of Python.
// `read_pickle` carries out those that make plain values, of protocols 0 to 5, and refuses all others. It takes memory in proportion to
// the input: each instruction makes at most one value, and a value that stands in several places is there once.
//
//   const ValueTree tree = read_pickle(bytes);
//   const Value& dump = tree.root();          // views of its strings point into `bytes` and `tree`
//
// WRONG: to walk a tree without a limit. A list may hold itself, and twenty lists that each hold the one before twice are a million values
// for who follows all ways. `Walk` counts the steps.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace weft::report::torch_records {

struct Value {
  enum class Kind : std::uint8_t { none, boolean, integer, real, string, list, dictionary };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< of a boolean: 0 or 1
  double real = 0;
  std::string_view string{};
  /// Places of the items of a list or tuple; of a dictionary keys and values in turn.
  std::vector<std::uint32_t> items{};
};

/// "a string", "a list"
std::string_view name(Value::Kind kind);

class ValueTree {
 public:
  ValueTree() = default;
  ValueTree(const ValueTree&) = delete;
  ValueTree& operator=(const ValueTree&) = delete;
  ValueTree(ValueTree&&) = default;
  ValueTree& operator=(ValueTree&&) = default;

  std::uint32_t add(Value value);
  Value& at(std::uint32_t place) { return values_[place]; }
  const Value& at(std::uint32_t place) const { return values_[place]; }
  const Value& root() const { return values_[root_]; }
  void set_root(std::uint32_t place) { root_ = place; }
  /// Keeps a text that does not stand in the input as it is.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }

 private:
  std::vector<Value> values_{};
  std::deque<std::string> kept_{};
  std::uint32_t root_ = 0;
};

/// @param bytes kept by the caller while the tree is used
/// @throws Error (usage) naming the byte and what stands there
ValueTree read_pickle(std::string_view bytes);
/// @throws Error (usage)
ValueTree read_json(std::string_view text);
/// Whether bytes begin as a pickle does.
bool looks_like_pickle(std::string_view bytes);

/// A way through a tree, which knows its place for errors and how many steps are left.
class Walk {
 public:
  Walk(const ValueTree& tree, std::string_view input)
      : tree_(&tree), left_(64 + 32 * static_cast<std::int64_t>(input.size())) {}

  /// Calls `visit(key, value)` for each member. @throws Error (usage) if it is no dictionary, and when steps run out
  template <class Visit>
  void members(const Value& value, std::string_view called, Visit&& visit) {
    expect(value, Value::Kind::dictionary, called);
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      step(called);
      const Value& key = tree_->at(value.items[i]);
      visit(key.kind == Value::Kind::string ? key.string : std::string_view(), tree_->at(value.items[i + 1]));
    }
  }
  /// Calls `visit(number, value)` for each item.
  template <class Visit>
  void items(const Value& value, std::string_view called, Visit&& visit) {
    expect(value, Value::Kind::list, called);
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      step(called);
      visit(i, tree_->at(value.items[i]));
    }
  }
  /// Errors name the entry from here on: "entries[3].state".
  void enter(std::size_t entry) { entry_ = static_cast<std::int64_t>(entry); }
  void leave() { entry_ = -1; }
  std::string_view string(const Value& value, std::string_view called) const;
  std::int64_t integer(const Value& value, std::string_view called) const;
  bool boolean(const Value& value, std::string_view called) const;
  [[noreturn]] void refuse(std::string_view called, std::string_view problem,
                           std::string_view advice = {}) const;

 private:
  void expect(const Value& value, Value::Kind kind, std::string_view called) const;
  void step(std::string_view called);

  const ValueTree* tree_;
  std::int64_t left_;
  std::int64_t entry_ = -1;
};

}  // namespace weft::report::torch_records
