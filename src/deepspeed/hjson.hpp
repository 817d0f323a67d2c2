#pragma once
// Reads Hjson (hjson.github.io): JSON with comments, commas and quotes that may be left out, and strings of several lines. Python's hjson,
// which DeepSpeed reads its configurations with, decides what a text means.
//
// Own code: Debian has no library for it, and Boost.JSON keeps neither lines nor keys that are there twice.
//
//   const Node root = read_hjson("{stage: 2  # comment\n}", "ds.json");     // root.members[0].value.line is 1

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::detail {

struct Member;

struct Node {
  enum class Kind { null, boolean, number, string, array, object };

  Kind kind = Kind::null;
  int line = 0;
  bool boolean = false;
  double number = 0;
  std::optional<std::int64_t> integer{};  ///< where the number is whole and fits: 5e8, too
  std::string text{};                     ///< of a string
  std::vector<Node> items{};              ///< of an array
  std::vector<Member> members;            ///< of an object, in the text's order, each name once
};

struct Member {
  std::string name;
  Node value;
};

/// @param called what errors call the text: "ds.json:7: ..."
/// @throws Error (usage) naming the line, for what is no Hjson and for a key that is there twice
Node read_hjson(std::string_view text, const std::string& called);

/// As JSON in one line. Numbers are the shortest that are read as the same.
std::string to_json(const Node& node);
std::string to_json(double number);

/// @param code at most 0x10ffff
void append_utf8(std::string& out, std::uint32_t code);

}  // namespace weft::detail
