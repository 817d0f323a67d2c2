#include "weft-report/torch_records/values.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <limits>

#include "weft/core/error.hpp"

namespace weft::report::torch_records {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 7> kinds{"None",     "a boolean", "a whole number", "a number",
                                                "a string", "a list",    "a dictionary"};

Value of_kind(Value::Kind kind) {
  return {.kind = kind};
}

/// The parser allows 32 levels, so that this does not go deep.
std::uint32_t add_json(const json::value& value, ValueTree& tree) {
  using enum Value::Kind;
  switch (value.kind()) {
    case json::kind::null:
      return tree.add(of_kind(none));
    case json::kind::bool_:
      return tree.add({.kind = boolean, .integer = value.get_bool() ? 1 : 0});
    case json::kind::int64:
      return tree.add({.kind = integer, .integer = value.get_int64()});
    case json::kind::uint64:
      return tree.add({.kind = real, .real = static_cast<double>(value.get_uint64())});
    case json::kind::double_:
      return tree.add({.kind = real, .real = value.get_double()});
    case json::kind::string:
      return tree.add({.kind = string, .string = tree.keep(std::string(value.get_string()))});
    case json::kind::array: {
      Value one = of_kind(list);
      for (const json::value& item : value.get_array()) one.items.push_back(add_json(item, tree));
      return tree.add(std::move(one));
    }
    case json::kind::object:
      break;
  }
  Value one = of_kind(dictionary);
  for (const auto& member : value.get_object()) {
    one.items.push_back(tree.add({.kind = string, .string = tree.keep(std::string(member.key()))}));
    one.items.push_back(add_json(member.value(), tree));
  }
  return tree.add(std::move(one));
}

}  // namespace

std::string_view name(Value::Kind kind) {
  return kinds[static_cast<std::size_t>(kind)];
}

std::uint32_t ValueTree::add(Value value) {
  if (values_.size() >= std::numeric_limits<std::uint32_t>::max())
    throw Error(ErrorKind::usage, "a record has more than 4294967294 values");
  values_.push_back(std::move(value));
  return static_cast<std::uint32_t>(values_.size() - 1);
}

bool looks_like_pickle(std::string_view bytes) {
  // Protocol 2 and later say so; before, a dictionary begins with a mark or is empty.
  return bytes.starts_with('\x80') || bytes.starts_with("(dp") || bytes.starts_with("}q");
}

ValueTree read_json(std::string_view text) {
  boost::system::error_code error;
  const json::value value = json::parse({text.data(), text.size()}, error);
  if (error) throw Error(ErrorKind::usage, weft::text("is no whole JSON: ", error.message()));
  ValueTree tree;
  tree.set_root(add_json(value, tree));
  return tree;
}

std::string_view Walk::string(const Value& value, std::string_view called) const {
  expect(value, Value::Kind::string, called);
  return value.string;
}

std::int64_t Walk::integer(const Value& value, std::string_view called) const {
  expect(value, Value::Kind::integer, called);
  return value.integer;
}

bool Walk::boolean(const Value& value, std::string_view called) const {
  expect(value, Value::Kind::boolean, called);
  return value.integer != 0;
}

void Walk::refuse(std::string_view called, std::string_view problem, std::string_view advice) const {
  const std::string entry = entry_ < 0 ? std::string() : text("entries[", entry_, "].");
  throw Error(ErrorKind::usage, text(entry, called, ' ', problem), std::string(advice));
}

void Walk::expect(const Value& value, Value::Kind kind, std::string_view called) const {
  if (value.kind != kind)
    refuse(called, text("is ", name(value.kind)), text("PyTorch writes ", name(kind), " there"));
}

void Walk::step(std::string_view called) {
  if (left_-- == 0)
    refuse(called, "holds the same values so often that reading them all would not end",
           "PyTorch writes no such record");
}

}  // namespace weft::report::torch_records
