// What stands before the lines of tools.

#include "weft-report/topology/tag.hpp"

#include <gtest/gtest.h>

#include "weft-report/topology/words.hpp"

namespace weft::report::topology {
namespace {

TEST(LineTag, IsTheSameButForTimes) {
  const auto rest = [](std::string_view tag, std::string_view line) {
    return Tag(tag).strip(line) ? std::string(line) : std::string("another");
  };
  EXPECT_EQ(rest("", "\tport: 1"), "\tport: 1");
  EXPECT_EQ(rest("node1: ", "node1: \tport: 1"), " \tport: 1");
  EXPECT_EQ(rest("node1: ", "node2: \tport: 1"), "another");
  EXPECT_EQ(rest("[1,3]<stdout>:", "[1,3]<stdout>:\tport"), "\tport");
  EXPECT_EQ(rest("2026-01-01T10:00:00.5Z stdout F", "2026-01-02T11:00:00.6Z stdout F GPU0"), " GPU0");
  EXPECT_EQ(rest("2026-01-01T10:00:00.5Z stdout F", "GPU0 stdout F"), "another");
  EXPECT_EQ(rest("node1:", ""), "another");
}

TEST(LineTag, NamesAHost) {
  EXPECT_EQ(Tag("node1: ").host(), "node1");
  for (const char* tag : {"", "3: ", "[1,3]<stdout>:", "(pid=7) ", "stdout F", "node 1:"})
    EXPECT_EQ(Tag(tag).host(), "") << tag;
}

TEST(LineWords, AreTakenApart) {
  std::string_view line = " \tGPU0\t X \r";
  EXPECT_EQ(take_word(line), "GPU0");
  EXPECT_EQ(take_word(line), "X");
  EXPECT_EQ(take_word(line), "");
  EXPECT_EQ(trimmed(" \ta b\r"), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(without_codes("\x1b[4mGPU0\x1b[0m\t\x1b[1;31mX"), "GPU0\tX");
  EXPECT_EQ(without_codes("cut \x1b["), "cut ");
  EXPECT_EQ(evidence_text("  a\t\r"), "  a");
  EXPECT_EQ(evidence_text(std::string(5000, 'x')).size(), 304U);
  EXPECT_EQ(evidence_text(std::string(300, 'x')).size(), 300U);
}

}  // namespace
}  // namespace weft::report::topology
