// Pickles give the values that Python would give, and nothing is executed. Programs' tests read what Python itself writes.

#include <gtest/gtest.h>

#include <string>

#include "support/draw.hpp"
#include "weft-report/torch_records/literals.hpp"
#include "weft-report/torch_records/values.hpp"
#include "weft/core/error.hpp"

namespace weft::report::torch_records {
namespace {

using namespace std::string_literals;

/// As Python's repr() prints it.
std::string shown(const ValueTree& tree, const Value& value) {
  using enum Value::Kind;
  std::string words;
  switch (value.kind) {
    case none:
      return "None";
    case boolean:
      return value.integer != 0 ? "True" : "False";
    case integer:
      return text(value.integer);
    case real:
      return text(value.real);
    case string:
      return text('\'', value.string, '\'');
    case list:
      for (const std::uint32_t item : value.items)
        words += text(words.empty() ? "" : ", ", shown(tree, tree.at(item)));
      return text('[', words, ']');
    case dictionary:
      break;
  }
  for (std::size_t i = 0; i < value.items.size(); i += 2)
    words += text(words.empty() ? "" : ", ", shown(tree, tree.at(value.items[i])), ": ",
                  shown(tree, tree.at(value.items[i + 1])));
  return text('{', words, '}');
}
std::string read(const std::string& bytes) {
  const ValueTree tree = read_pickle(bytes);
  return shown(tree, tree.root());
}
std::string why_refused(const std::string& bytes) {
  try {
    (void)read_pickle(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.problem();
  }
  return "taken";
}

TEST(TorchPickle, OfEveryInstructionIsRead) {
  EXPECT_EQ(read("N."), "None");
  EXPECT_EQ(read("\x80\x02\x88."), "True");
  EXPECT_EQ(read("I00\n."), "False");
  EXPECT_EQ(read("I-12\n."), "-12");
  EXPECT_EQ(read("L99L\n."), "99");
  EXPECT_EQ(read("F0.5\n."), "0.5");
  EXPECT_EQ(read("G\x3f\xe0\0\0\0\0\0\0."s), "0.5");
  EXPECT_EQ(read("J\xfe\xff\xff\xff."s), "-2");
  EXPECT_EQ(read("K\xff."), "255");
  EXPECT_EQ(read("M\x01\x01."), "257");
  EXPECT_EQ(read("\x8a\x01\xff."), "-1");
  EXPECT_EQ(read("\x8a\0."s), "0");
  EXPECT_EQ(read("\x8b\x02\0\0\0\0\x01."s), "256");
  EXPECT_EQ(read("U\x01"
                 "a."),
            "'a'");
  EXPECT_EQ(read("X\x02\0\0\0ab."s), "'ab'");
  EXPECT_EQ(read("\x8d\x01\0\0\0\0\0\0\0a."s), "'a'");
  EXPECT_EQ(read("Va\\u0041\n."), "'aA'");
  EXPECT_EQ(read("S'it\\'s'\n."), "'it's'");
  EXPECT_EQ(read("(lI1\naI2\na."), "[1, 2]");
  EXPECT_EQ(read("](K\x01K\x02"
                 "e."),
            "[1, 2]");
  EXPECT_EQ(read("K\x01K\x02\x86."), "[1, 2]");
  EXPECT_EQ(read("(K\x01t."), "[1]");
  EXPECT_EQ(read("(K\x01K\x02"
                 "d."),
            "{1: 2}");
  EXPECT_EQ(read("}K\x01K\x02s(K\x03K\x04u."), "{1: 2, 3: 4}");
  EXPECT_EQ(read("\x80\x04\x95\x03\0\0\0\0\0\0\0K\x01\x94."s), "1");
}

TEST(TorchPickle, KeepsValuesAndTakesThemAgain) {
  EXPECT_EQ(read("]q\x05K\x07q\x06"
                 "ah\x06"
                 "a."),
            "[7, 7]");
  EXPECT_EQ(read("]r\0\x01\0\0K\x07p300\nag300\na."s), "[7, 7]");
  EXPECT_EQ(read("]2a0K\x01."), "1");
  EXPECT_EQ(read("K\x01(K\x02K\x03"
                 "1."),
            "1");
  EXPECT_EQ(read("\x80\x04]\x94K\x07\x94"
                 "ah\x01"
                 "aj\x01\0\0\0a."s),
            "[7, 7, 7]");
}

TEST(TorchPickle, ThatWouldRunSomethingIsRefusedByName) {
  const std::pair<std::string, std::string> all[] = {{"cos\nsystem\n.", "GLOBAL"},
                                                     {"NNR.", "REDUCE"},
                                                     {"NNb.", "BUILD"},
                                                     {"(ios\nsystem\n.", "INST"},
                                                     {"(No.", "OBJ"},
                                                     {"NN\x81.", "NEWOBJ"},
                                                     {"NNN\x92.", "NEWOBJ_EX"},
                                                     {"VA\nVB\n\x93.", "STACK_GLOBAL"},
                                                     {"\x82\x01.", "EXT1"},
                                                     {"\x83\x01\x01.", "EXT2"},
                                                     {"\x84\x01\x01\x01\x01.", "EXT4"},
                                                     {"P1\n.", "PERSID"},
                                                     {"NQ.", "BINPERSID"},
                                                     {"\x8f.", "EMPTY_SET"},
                                                     {"\x97.", "NEXT_BUFFER"}};
  for (const auto& [bytes, word] : all)
    EXPECT_NE(why_refused(bytes).find(text("has the instruction ", word, ", which makes objects")),
              std::string::npos)
        << word << ": " << why_refused(bytes);
  EXPECT_NE(why_refused("~.").find("unknown instruction 126, at byte 0"), std::string::npos);
}

TEST(TorchPickle, ThatIsBrokenIsRefused) {
  for (const std::string& bytes : {""s,
                                   "K"s,
                                   "K\x01"s,
                                   "."s,
                                   "K\x01K\x02."s,
                                   "(."s,
                                   "a."s,
                                   "]a."s,
                                   "K\x01K\x02"
                                   "a."s,
                                   "}K\x01"
                                   "a."s,
                                   "e."s,
                                   "](K\x01s."s,
                                   "(K\x01"
                                   "d."s,
                                   "h\x07."s,
                                   "q\x01."s,
                                   "2."s,
                                   "0."s,
                                   "1."s,
                                   "X\xff\xff\xff\xff"
                                   "a."s,
                                   "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                   "\x95\xff\xff\xff\xff\xff\xff\xff\xffN."s,
                                   "\x80\x06N."s,
                                   "Ix\n."s,
                                   "I1"s,
                                   "F1.5x\n."s,
                                   "S'a\n."s,
                                   "Va\\u00\n."s,
                                   "K\x01(\x85."s,
                                   "\x8a\x09\0\0\0\0\0\0\0\0\x01."s,
                                   "L99999999999999999999L\n."s,
                                   "g1x\n."s})
    EXPECT_NE(why_refused(bytes), "taken") << testing::PrintToString(bytes);
}

TEST(TorchPickle, IsCutOrChangedAnywhereWithoutHarm) {
  const std::string whole =
      "\x80\x02}q\x01(X\x01\0\0\0aq\x02](K\x01M\x01\x01"
      "eX\x01\0\0\0bh\x02u."s;
  ASSERT_EQ(read(whole), "{'a': [1, 257], 'b': 'a'}");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(why_refused(whole.substr(0, size)), "taken") << size;
  test::Draw draw(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = whole;
    for (int changes = 1 + draw.below(4); changes > 0; --changes)
      changed[static_cast<std::size_t>(draw.below(static_cast<int>(changed.size())))] =
          static_cast<char>(draw.below(256));
    (void)why_refused(changed);
  }
}

/// Each list holds the one before twice: 2^64 values for who follows all ways. And one that holds itself.
TEST(TorchPickle, ThatHoldsItselfTakesLittleMemoryAndIsNotReadForEver) {
  std::string doubled = "]q\0"s;
  for (int i = 0; i < 64; ++i) doubled += "0](h\0h\0eq\0"s;
  doubled += ".";
  for (const std::string& bytes : {doubled, "]q\0h\0a."s}) {
    const ValueTree tree = read_pickle(bytes);
    Walk walk(tree, bytes);
    const std::function<void(const Value&)> follow = [&](const Value& value) {
      walk.items(value, "entries", [&](std::size_t, const Value& item) { follow(item); });
    };
    try {
      follow(tree.root());
      ADD_FAILURE() << "it ended";
    } catch (const Error& error) {
      EXPECT_NE(error.problem().find("holds the same values so often"), std::string::npos) << error.problem();
    }
  }
}

TEST(TorchPickle, NumbersAndStringsAreThoseOfPython) {
  EXPECT_EQ(whole_number(""), 0);
  EXPECT_EQ(whole_number("\xff"), -1);
  EXPECT_EQ(whole_number("\x80\0"s), 128);
  EXPECT_EQ(whole_number("\xff\xff\xff\xff\xff\xff\xff\x7f"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(whole_number("\0\0\0\0\0\0\0\x80"s), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(whole_number("\xff\xff\xff\xff\xff\xff\xff\xff\xff"), -1);
  EXPECT_EQ(whole_number("\0\0\0\0\0\0\0\x80\0"s), std::nullopt);
  EXPECT_EQ(unescaped("a\\n\\\\\xe9\\u20ac\\U0001f600"), "a\n\\\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(unescaped("\\q\\"), "\\q\\");
  EXPECT_EQ(unescaped("\\x4"), std::nullopt);
  EXPECT_EQ(unescaped("\\U00110000"), std::nullopt);
}

}  // namespace
}  // namespace weft::report::torch_records
