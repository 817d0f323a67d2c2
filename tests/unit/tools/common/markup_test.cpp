// Words and numbers as pages show them.

#include "common/page/markup.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::report {
namespace {

TEST(Markup, EverythingThatHtmlWouldReadIsEscaped) {
  EXPECT_EQ(escaped("a<b>\"c\" & 'd'"), "a&lt;b&gt;&quot;c&quot; &amp; &#39;d&#39;");
  EXPECT_EQ(escaped(std::string("nul\0bell\a<\n\t\u202e", 15)), "nul\\x00bell\\x07&lt;\n\t\\u202e");
  EXPECT_EQ(escaped("größer → µs"), "größer → µs");
}

TEST(Markup, NumbersHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(duration(0.263), "263\u00a0ms");
  EXPECT_EQ(duration(0.0263), "26.3\u00a0ms");
  EXPECT_EQ(duration(0.0012), "1.20\u00a0ms");
  EXPECT_EQ(duration(0.000084), "84.0\u00a0µs");
  EXPECT_EQ(duration(0.99996), "1.00\u00a0s");
  EXPECT_EQ(duration(0.00099996), "1.00\u00a0ms");
  EXPECT_EQ(duration(12.34), "12.3\u00a0s");
  EXPECT_EQ(duration(0), "0\u00a0ms");
  EXPECT_EQ(bytes(36'000'000), "36.0\u00a0MB");
  EXPECT_EQ(bytes(999), "999\u00a0B");
  EXPECT_EQ(bytes(1.5e9), "1.50\u00a0GB");
  EXPECT_EQ(percent(0.984), "98.4\u00a0%");
  EXPECT_EQ(grouped(1234567.4), "1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(fixed(-0.0001, 2), "0.00");
  EXPECT_EQ(fixed(std::nan(""), 2), "-");
  EXPECT_EQ(fixed(HUGE_VAL, 2), "-");
}

TEST(Markup, TicksAreRoundAndInside) {
  EXPECT_EQ(ticks(0, 263, 6), (std::vector<double>{0, 100, 200}));
  EXPECT_EQ(ticks(0, 100, 6), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(ticks(50, 106, 6), (std::vector<double>{60, 80, 100}));
  EXPECT_FALSE(std::signbit(ticks(0, 100, 6).front()));
  EXPECT_EQ(ticks(5, 5, 6), std::vector<double>{5});
  for (const double high : {1e-9, 0.37, 1.0, 7.77, 12345.0, 1e12}) {
    for (const double low : {0.0, high / 3, high * 0.9}) {
      const auto places = ticks(low, high, 6);
      EXPECT_LE(places.size(), 7u) << low << " to " << high;
      EXPECT_GE(places.size(), 2u) << low << " to " << high;
      EXPECT_GE(places.front(), low * (1 - 1e-6));
      EXPECT_LE(places.back(), high * (1 + 1e-6));
    }
  }
}

TEST(Markup, DrawingsStayInsideWhateverTheyAreGiven) {
  Svg svg("a & b", "<c>", 20);
  svg.rect({-1, 7}, {0, 20}, "compute", "tip <x>");
  svg.line(std::nan(""), 0, HUGE_VAL, HUGE_VAL, "grid");
  const std::string out = svg.str();
  EXPECT_NE(out.find("role=\"img\""), std::string::npos);
  EXPECT_NE(out.find("<title>a &amp; b</title><desc>&lt;c&gt;</desc>"), std::string::npos) << out;
  EXPECT_NE(out.find("<title>tip &lt;x&gt;</title>"), std::string::npos) << out;
  EXPECT_NE(out.find("x=\"0.000%\" y=\"0.0\" width=\"100.000%\""), std::string::npos) << out;
  EXPECT_EQ(out.find("nan"), std::string::npos) << out;
  EXPECT_EQ(out.find("inf"), std::string::npos) << out;
}

}  // namespace
}  // namespace weft::report
