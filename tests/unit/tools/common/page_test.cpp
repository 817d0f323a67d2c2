// What every page has, whichever program writes it.

#include "common/page/page.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace weft::report {
namespace {

TEST(Page, IsOneFileWithoutScripts) {
  const std::string page = whole_page("a <b> & c", "<p>content</p>\n", ".more { color: red; }\n");
  EXPECT_TRUE(page.starts_with("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"));
  EXPECT_TRUE(page.ends_with("<main>\n<p>content</p>\n</main>\n</body>\n</html>\n"));
  EXPECT_NE(page.find("<title>a &lt;b&gt; &amp; c</title>"), std::string::npos);
  EXPECT_NE(page.find(".more { color: red; }\n</style>"), std::string::npos);
  EXPECT_NE(page.find("content=\"default-src 'none'; style-src 'unsafe-inline'\""), std::string::npos);
  for (const char* none : {"<script", "http://", "https://", "src="})
    EXPECT_EQ(page.find(none), std::string::npos) << none;
}

// What a page does not have where its style refers to it is drawn as nothing: bars that cannot be seen.
TEST(Page, HasAllThatItsStyleRefersTo) {
  const std::string page = whole_page("", "");
  std::set<std::string> used;
  const std::string begin = "url(#";
  for (std::size_t at = page.find(begin); at != page.npos; at = page.find(begin, at + 1)) {
    const std::size_t name = at + begin.size();
    used.insert(page.substr(name, page.find(')', name) - name));
  }
  EXPECT_FALSE(used.empty());
  for (const std::string& one : used) EXPECT_NE(page.find("id=\"" + one + '"'), std::string::npos) << one;
}

TEST(Page, ASectionWithoutContentIsNone) {
  EXPECT_EQ(section("Figures", "A note.", ""), "");
  EXPECT_EQ(section("Figures", "", "x\n"), "<section><h2>Figures</h2>\nx\n</section>\n");
  EXPECT_EQ(section("Figures", "A note.", "x\n"),
            "<section><h2>Figures</h2>\n<p class=\"note\">A note.</p>\nx\n</section>\n");
}

}  // namespace
}  // namespace weft::report
