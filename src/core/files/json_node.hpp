#pragma once
// Reads JSON strictly. A value that is not as expected is an error of one line, which names the file, the
// place in it and the allowed values.
//
//   const JsonNode root("rank-1.json", value);
//   root.has({"size", "ranks"});
//   root["ranks"].each([&](const JsonNode& one) { ranks.push_back(one.integer(0, 3)); });
//   // rank-1.json: ranks[2] is 4; it is a whole number from 0 to 3
//
// WRONG: a node that outlives the one it came from; it points to its parent.

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "weft/core/error.hpp"

namespace weft::detail {

/// A value in a file. It knows its path, which becomes text only in an error.
class JsonNode {
 public:
  JsonNode(const std::string& file, const boost::json::value& value) : file_(&file), value_(&value) {}

  [[noreturn]] void refuse(const std::string& problem, const std::string& advice = {}) const {
    const std::string place = path();
    throw Error(ErrorKind::usage, text(*file_, ": ", place, place.empty() ? "" : " ", problem), advice);
  }

  /// Checks that it is an object with these members and no others; `optional` may be missing.
  void has(std::initializer_list<std::string_view> members, std::string_view optional = {}) const {
    const boost::json::object* object = value_->if_object();
    if (object == nullptr) refuse("is no object");
    for (const std::string_view member : members) {
      if (member != optional && !object->contains(member)) refuse(text("has no \"", member, "\""));
    }
    for (const auto& one : *object) {
      const std::string_view key{one.key().data(), one.key().size()};
      if (std::ranges::find(members, key) == members.end())
        refuse(text("has an unknown member \"", key, "\""));
    }
  }
  /// For a value that has() found to be an object.
  bool contains(std::string_view key) const { return value_->get_object().contains(key); }
  JsonNode operator[](std::string_view key) const { return {this, key, 0, value_->get_object().at(key)}; }
  /// For any value; it may have other members too.
  JsonNode member(std::string_view key) const {
    const boost::json::object* object = value_->if_object();
    if (object == nullptr) refuse("is no object");
    const auto one = object->find(key);
    if (one == object->end()) refuse(text("has no \"", key, "\""));
    return {this, key, 0, one->value()};
  }

  const boost::json::value& value() const { return *value_; }

  template <class Visit>
  void each(Visit&& visit) const {
    const boost::json::array* array = value_->if_array();
    if (array == nullptr) refuse("is no array");
    for (std::size_t i = 0; i < array->size(); ++i) visit(JsonNode(this, {}, i, (*array)[i]));
  }

  /// Each member of an object, with its name.
  template <class Visit>
  void each_member(Visit&& visit) const {
    const boost::json::object* object = value_->if_object();
    if (object == nullptr) refuse("is no object");
    for (const auto& one : *object) {
      const std::string_view key{one.key().data(), one.key().size()};
      visit(std::string(key), JsonNode(this, key, 0, one.value()));
    }
  }

  std::int64_t integer(std::int64_t least, std::int64_t most = no_limit) const {
    const std::int64_t* number = value_->if_int64();
    if (number == nullptr || *number < least || *number > most) {
      refuse(text("is ", boost::json::serialize(*value_)),
             most == no_limit ? text("it is a whole number from ", least)
                              : text("it is a whole number from ", least, " to ", most));
    }
    return *number;
  }
  /// A finite number above 0.
  double positive() const {
    return real([](double x) { return x > 0; }, "it is a number above 0");
  }
  /// A finite number of 0 or more.
  double not_negative() const {
    return real([](double x) { return x >= 0; }, "it is a number of 0 or more");
  }
  std::string string() const {
    const boost::json::string* words = value_->if_string();
    if (words == nullptr) refuse(text("is ", boost::json::serialize(*value_), " and no string"));
    return {words->data(), words->size()};
  }
  bool boolean() const {
    if (!value_->is_bool()) refuse(text("is ", boost::json::serialize(*value_)), "it is true or false");
    return value_->get_bool();
  }
  /// The one of the first `count` enumerators that has this name.
  template <class T>
  T named(int count) const {
    const std::string word = string();
    std::string allowed;
    for (int i = 0; i < count; ++i) {
      const auto value = static_cast<T>(i);
      if (word == name(value)) return value;
      allowed += (i == 0 ? "" : ", ") + std::string(name(value));
    }
    refuse(text("is \"", word, "\""), "it is one of " + allowed);
  }

 private:
  static constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

  JsonNode(const JsonNode* parent, std::string_view key, std::size_t index, const boost::json::value& value)
      : file_(parent->file_), value_(&value), parent_(parent), key_(key), index_(index) {}

  template <class Allowed>
  double real(Allowed allowed, const char* advice) const {
    const double number = value_->is_number() ? value_->to_number<double>() : std::nan("");
    if (!std::isfinite(number) || !allowed(number))
      refuse(text("is ", boost::json::serialize(*value_)), advice);
    return number;
  }

  std::string path() const {
    if (parent_ == nullptr) return {};
    const std::string before = parent_->path();
    if (key_.empty()) return text(before, '[', index_, ']');
    return before.empty() ? std::string(key_) : text(before, '.', key_);
  }

  const std::string* file_;
  const boost::json::value* value_;
  const JsonNode* parent_ = nullptr;
  std::string_view key_{};  // empty: a member of an array
  std::size_t index_ = 0;
};

}  // namespace weft::detail
