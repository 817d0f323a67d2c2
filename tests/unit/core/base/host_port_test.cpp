#include "core/base/host_port.hpp"

#include <gtest/gtest.h>

#include <regex>

#include "weft/core/text.hpp"

namespace weft::detail {
namespace {

/// "host|port" or "host"; "-" where it is none.
std::string split(std::string_view word) {
  const auto parts = split_host_port(word);
  if (!parts) return "-";
  return parts->port ? text(parts->host, '|', *parts->port) : std::string(parts->host);
}

TEST(HostPort, IsSplitAtTheOneColonOrBehindBrackets) {
  EXPECT_EQ(split("node7:9400"), "node7|9400");
  EXPECT_EQ(split("10.0.0.1:80"), "10.0.0.1|80");
  EXPECT_EQ(split("[::1]:80"), "::1|80");
  EXPECT_EQ(split("[fe80::1%eth0]:80"), "fe80::1%eth0|80");
  EXPECT_EQ(split("[node7]:80"), "node7|80");
}

TEST(HostPort, WithoutAPortIsAHost) {
  EXPECT_EQ(split("node7"), "node7");
  EXPECT_EQ(split("::1"), "::1");
  EXPECT_EQ(split("::1:80"), "::1:80");
  EXPECT_EQ(split("[::1]"), "::1");
  EXPECT_EQ(split(""), "");
}

TEST(HostPort, MayHaveAnEmptyHostOrPort) {
  EXPECT_EQ(split(":80"), "|80");
  EXPECT_EQ(split("node7:"), "node7|");
  EXPECT_EQ(split(":"), "|");
  EXPECT_EQ(split("[]:80"), "|80");
  EXPECT_EQ(split("[::1]:"), "::1|");
}

TEST(HostPort, IsNoneWhereBracketsDoNotMatch) {
  for (const char* word : {"[", "[::1", "[::1:80", "[::1]80", "[::1]x:80", "[::1]]:80"})
    EXPECT_EQ(split(word), "-") << word;
}

/// The obvious twin.
std::string split_by_pattern(const std::string& word) {
  static const std::regex in_brackets("\\[([^\\]]*)\\](?:(:)(.*))?");
  static const std::regex with_port("([^:]*):([^:]*)");
  std::smatch found;
  if (word.starts_with('[')) {
    if (!std::regex_match(word, found, in_brackets)) return "-";
    return found[2].matched ? text(found.str(1), '|', found.str(3)) : found.str(1);
  }
  return std::regex_match(word, found, with_port) ? text(found.str(1), '|', found.str(2)) : word;
}

TEST(HostPort, OfEveryShortWordIsWhatThePatternSays) {
  constexpr std::string_view letters = "[]:a8";
  std::vector<std::string> words{""};
  for (std::size_t from = 0, length = 0; length < 5; ++length) {
    const std::size_t end = words.size();
    for (; from < end; ++from) {
      for (const char letter : letters) words.push_back(words[from] + letter);
    }
  }
  ASSERT_EQ(words.size(), 1U + 5 + 25 + 125 + 625 + 3125);
  for (const std::string& word : words) EXPECT_EQ(split(word), split_by_pattern(word)) << word;
}

TEST(HostPort, ANumberIsAPortFrom1To65535) {
  EXPECT_EQ(port_number("1"), 1);
  EXPECT_EQ(port_number("29500"), 29500);
  EXPECT_EQ(port_number("0080"), 80);
  EXPECT_EQ(port_number("65535"), 65535);
  for (const char* word : {"", "0", "65536", "99999999999999999999", "-1", "+80", " 80", "80 ", "80x", "x",
                           "8 0", "0x50", "80:"})
    EXPECT_EQ(port_number(word), std::nullopt) << word;
}

TEST(HostPort, IsReadAgainAsItIsWritten) {
  EXPECT_EQ(bracketed("node7"), "node7");
  EXPECT_EQ(bracketed("::1"), "[::1]");
  EXPECT_EQ(bracketed("[::1]"), "[::1]");
  EXPECT_EQ(bracketed(""), "");
  for (const std::string_view host : {"node7", "10.0.0.1", "::1", "fe80::1%eth0"})
    EXPECT_EQ(split(text(bracketed(host), ":80")), text(host, "|80"));
}

}  // namespace
}  // namespace weft::detail
