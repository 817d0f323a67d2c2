#include "deepspeed/hjson.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

std::string read(const std::string& text) {
  return to_json(read_hjson(text, "ds.json"));
}

void expect_refused(const std::string& text, const std::string& place, const std::string& why) {
  test::expect_error(ErrorKind::usage, {place, why}, [&] { (void)read_hjson(text, "ds.json"); });
}

// What Python's hjson 3.1 makes of each.
TEST(Hjson, IsReadAsPythonsHjsonReadsIt) {
  EXPECT_EQ(read("{}"), "{}");
  EXPECT_EQ(read(""), "{}");
  EXPECT_EQ(read("a: 1"), R"({"a": 1})");
  EXPECT_EQ(read("{a: 1, b: [1, 2,], }"), R"({"a": 1, "b": [1, 2]})");
  EXPECT_EQ(read("{a: 1 // one\n b: 2 # two\n /* three */ c: 3}"), R"({"a": 1, "b": 2, "c": 3})");
  EXPECT_EQ(read("{a: word, b: 2}\n}"), R"({"a": "word, b: 2}"})") << "words go on to the line's end";
  EXPECT_EQ(read("{a: true story\n b: true }"), R"({"a": "true story", "b": true})");
  EXPECT_EQ(read("{a: 1 2\n b: 01\n c: +1\n d: .5\n}"), R"({"a": "1 2", "b": "01", "c": "+1", "d": ".5"})");
  EXPECT_EQ(read("{a: 5e8, b: -1.5E-3, c: 0, d: -0.0}"), R"({"a": 500000000, "b": -0.0015, "c": 0, "d": 0})");
  EXPECT_EQ(read("{'a': 'it\\'s', \"b\": \"\\u00e9\\n\"}"), "{\"a\": \"it's\", \"b\": \"\xc3\xa9\\u000a\"}");
  EXPECT_EQ(read("{a: '''one'''}"), R"({"a": "one"})");
  EXPECT_EQ(read("{\n  a:\n    '''\n    one\n      two\n    '''\n}"), R"({"a": "one\u000a  two"})");
  EXPECT_EQ(read("{\"a b\": null}"), R"({"a b": null})");
  EXPECT_EQ(read("\xef\xbb\xbf{a: false}"), R"({"a": false})");
}

TEST(Hjson, LinesAreThoseOfTheKeys) {
  const Node root = read_hjson("{\n  a: 1\n  b:\n  {\n    c: 2\n  }\n}", "ds.json");
  EXPECT_EQ(root.members[0].value.line, 2);
  EXPECT_EQ(root.members[1].value.line, 3);
  EXPECT_EQ(root.members[1].value.members[0].value.line, 5);
}

TEST(Hjson, IsRefusedWithItsLine) {
  expect_refused("{a: 1,\n a: 2}", "ds.json:2", "the key \"a\" is there twice, first in line 1; remove one");
  expect_refused("{a: {b: 1, b: 2}}", "ds.json:1", "\"b\" is there twice");
  expect_refused("{a: 1", "ds.json:1", "within a { }");
  expect_refused("{a: [1, 2", "ds.json:1", "within a [ ]");
  expect_refused("{a:\n", "ds.json:2", "where a value is expected");
  expect_refused("{a: \"b\nc\"}", "ds.json:1", "close its quotes");
  expect_refused("{a: \"b", "ds.json:1", "the string has no end");
  expect_refused("{a: '''b", "ds.json:1", "add '''");
  expect_refused("{\n/* a", "ds.json:2", "the comment has no end");
  expect_refused("{a b: 1}", "ds.json:1", "blanks are within the key \"a b\"");
  expect_refused("{,}", "ds.json:1", "',' is where a key is expected");
  expect_refused("{: 1}", "ds.json:1", "a : without a key");
  expect_refused("{\"a\" 1}", "ds.json:1", "no : follows the key \"a\"");
  expect_refused("{a: ]}", "ds.json:1", "']' is where a value is expected");
  expect_refused("{}\n{}", "ds.json:2", "something follows");
  expect_refused("[1]", "ds.json:1", "this is an array");
  expect_refused(R"({a: "\x"})", "ds.json:1", "unknown escape");
  expect_refused(R"({a: "\u12"})", "ds.json:1", "four hexadecimal digits");
  expect_refused(R"({a: "\ud800"})", "ds.json:1", "surrogate");
  expect_refused("{a: 1e999}", "ds.json:1", "out of the range");
  expect_refused(std::string(100, '[').insert(0, "a: "), "ds.json:1", "more than 64 deep");
}

}  // namespace
}  // namespace weft::detail
