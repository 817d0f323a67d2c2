// Each form of a report shows what it was given, and text from logs cannot break out of it.

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>

#include "common/findings/markdown.hpp"
#include "common/findings/report.hpp"
#include "common/findings/report_page.hpp"
#include "common/findings/sarif.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;

const std::string hostile =
    "</pre><script>alert(1)</script> ``` | \x1b[31mred\x07 \"},{\" [x](http://a.b) @root #12 caf\xe9 "
    "\u202e\u2028end\r\n# head";

bool contains(const std::string& page, std::string_view words) {
  return page.find(words) != std::string::npos;
}

Report report_of(std::vector<Finding> findings) {
  return {.subject = "NCCL job",
          .looked_at = "3 lines of 2 processes on 1 host",
          .findings = std::move(findings)};
}
Finding one_finding() {
  return {.cause = "shm-too-small",
          .severity = Severity::critical,
          .confidence = 0.97,
          .verdict = "/dev/shm is too small",
          .evidence = {{"logs/rank 0", 12, "No space left on device"}, {"logs/rank1", 0, "Bus error"}},
          .fix = "start the container with --shm-size=8g",
          .effect = "the job starts",
          .not_when = "files fill it",
          .versions = "2.7 and newer"};
}
Finding hostile_finding() {
  return {.cause = "wrong-hca",
          .severity = Severity::warning,
          .verdict = "a host is called " + hostile,
          .evidence = {{hostile, 3, hostile}},
          .fix = "rename " + hostile};
}

TEST(CleanText, IsOneLineOfUtf8WithoutHiddenCharacters) {
  EXPECT_EQ(clean("größer → µs"), "größer → µs");
  EXPECT_EQ(clean("a\tb\nc\x1b[0m\x7f"), "a b\\nc\\x1b[0m\\x7f");
  EXPECT_EQ(clean("of a log of Windows\r"), "of a log of Windows");
}

TEST(Reports, SayTheFirstFindingOrThatNothingIsWrong) {
  EXPECT_EQ(verdict(report_of({one_finding(), hostile_finding()})), "critical: /dev/shm is too small");
  EXPECT_EQ(verdict(report_of({})), "nothing wrong is seen in 3 lines of 2 processes on 1 host");
  EXPECT_EQ(tally({one_finding(), hostile_finding(), hostile_finding()}), "1 critical finding, 2 warnings");
  EXPECT_EQ(tally({}), "no finding");
}

json::object run_of_sarif(const std::vector<Finding>& findings) {
  const json::value root = json::parse(to_sarif(findings, "1.2.3"));
  EXPECT_EQ(root.at("version").as_string(), "2.1.0");
  EXPECT_TRUE(root.at("$schema").is_string());
  EXPECT_EQ(root.at("runs").as_array().size(), 1U);
  return root.at("runs").at(0).as_object();
}

/// What the schema of SARIF 2.1.0 demands of the parts that weft-report writes.
void expect_valid(const json::object& run) {
  const json::object& driver = run.at("tool").at("driver").as_object();
  EXPECT_FALSE(driver.at("name").as_string().empty());
  const json::array& rules = driver.at("rules").as_array();
  const std::set<std::string> levels{"none", "note", "warning", "error"};
  std::set<std::string> ids;
  for (const json::value& rule : rules) {
    EXPECT_TRUE(ids.insert(std::string(rule.at("id").as_string())).second);
    for (const char* words : {"shortDescription", "fullDescription", "help"})
      EXPECT_FALSE(rule.at(words).at("text").as_string().empty()) << words;
    EXPECT_TRUE(levels.contains(std::string(rule.at("defaultConfiguration").at("level").as_string())));
  }
  for (const json::value& result : run.at("results").as_array()) {
    const auto index = static_cast<std::size_t>(result.at("ruleIndex").to_number<std::int64_t>());
    ASSERT_LT(index, rules.size());
    EXPECT_EQ(result.at("ruleId"), rules[index].at("id"));
    EXPECT_FALSE(result.at("message").at("text").as_string().empty());
    EXPECT_TRUE(levels.contains(std::string(result.at("level").as_string())));
    EXPECT_GE(result.at("rank").to_number<double>(), 0);
    EXPECT_LE(result.at("rank").to_number<double>(), 100);
    for (const json::value& place : result.at("locations").as_array()) {
      const std::string uri(place.at("physicalLocation").at("artifactLocation").at("uri").as_string());
      EXPECT_EQ(
          uri.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/%:"),
          std::string::npos)
          << uri;
    }
  }
}

TEST(Sarif, HasARuleWithHelpAndAResultWithItsLines) {
  const json::object run = run_of_sarif({one_finding(), hostile_finding(), one_finding()});
  expect_valid(run);
  EXPECT_EQ(run.at("tool").at("driver").at("version").as_string(), "1.2.3");
  EXPECT_EQ(run.at("tool").at("driver").at("rules").as_array().size(), 2U) << "a rule for each cause";
  const json::value& rule = run.at("tool").at("driver").at("rules").at(0);
  const std::string help(rule.at("help").at("text").as_string());
  for (const char* words : {"--shm-size=8g", "the job starts", "files fill it", "2.7 and newer"})
    EXPECT_TRUE(contains(help, words)) << help;
  const json::value& result = run.at("results").at(0);
  EXPECT_EQ(result.at("level").as_string(), "error");
  const json::value& place = result.at("locations").at(0).at("physicalLocation");
  EXPECT_EQ(place.at("artifactLocation").at("uri").as_string(), "logs/rank%200");
  EXPECT_EQ(place.at("region").at("startLine").as_int64(), 12);
  EXPECT_EQ(place.at("region").at("snippet").at("text").as_string(), "No space left on device");
  const json::value& other = result.at("relatedLocations").at(0);
  EXPECT_FALSE(other.at("physicalLocation").as_object().contains("region")) << "line 0 is no line";
  EXPECT_EQ(run.at("results").at(1).at("level").as_string(), "warning");
}

TEST(Sarif, OfNoFindingIsARunWithoutResults) {
  const json::object run = run_of_sarif({});
  expect_valid(run);
  EXPECT_TRUE(run.at("results").as_array().empty());
}

TEST(Sarif, NamesAbsolutePathsAsFiles) {
  Finding one = one_finding();
  one.evidence = {{"/var/log/a.log", 1, "x"}};
  EXPECT_EQ(run_of_sarif({one})
                .at("results")
                .at(0)
                .at("locations")
                .at(0)
                .at("physicalLocation")
                .at("artifactLocation")
                .at("uri")
                .as_string(),
            "file:///var/log/a.log");
}

TEST(Sarif, KeepsTextOfLogsInItsStrings) {
  const json::object run = run_of_sarif({hostile_finding()});
  expect_valid(run);
  EXPECT_EQ(run.at("results").at(0).at("locations").at(0).at("message").at("text").as_string(),
            clean(hostile));
}

TEST(Markdown, ShowsVerdictFindingsAndTables) {
  Report report = report_of({one_finding()});
  report.tables = {{.caption = "Hosts",
                    .heading = {"host", "NCCL", "P2P"},
                    .rows = {{"node1", "2.28", "56"}},
                    .words = 1,
                    .note = "P2P counts."}};
  const std::string page = to_markdown(report);
  for (const char* words :
       {"# NCCL job: /dev/shm is too small\n",
        "**1 critical finding** in 3 lines of 2 processes on 1 host.\n", "`shm-too-small`, confidence 0.97\n",
        "```text\nlogs/rank 0:12: No space left on device\nlogs/rank1: Bus error\n```\n",
        "- **To do:** start the container with --shm-size=8g\n", "- **Expected effect:** the job starts\n",
        "- **Does not apply when** files fill it\n", "- **Applies to NCCL** 2.7 and newer\n",
        "| host | NCCL | P2P |\n| --- | --- | ---: |\n| node1 | 2.28 | 56 |\n"})
    EXPECT_TRUE(contains(page, words)) << words << "\nis not in\n" << page;
  EXPECT_TRUE(
      contains(to_markdown(report_of({})), "# NCCL job: nothing wrong is seen\n\n**no finding** in 3 lines"));
}

TEST(Markdown, MakesNoMarkupOfTextOfLogs) {
  EXPECT_EQ(markdown_text("a*b `c` <b> |"), "a\\*b \\`c\\` \\<b\\> \\|");
  EXPECT_EQ(markdown_text("NCCL_IB_HCA _x_ 2.5"), "NCCL_IB_HCA \\_x\\_ 2.5");
  EXPECT_EQ(markdown_text("@me #7 http://x www.x"), "@<!-- -->me #<!-- -->7 http:<!-- -->//x www<!-- -->.x");
  EXPECT_EQ(markdown_text("[a](b) ![c](d) &amp; \\ ~~e~~"),
            "\\[a\\](b) !\\[c\\](d) \\&amp; \\\\ \\~\\~e\\~\\~");
  EXPECT_EQ(markdown_code("a ```` b\n"), "`````text\na ```` b\n`````\n");
  Report report = report_of({hostile_finding()});
  report.tables = {{.caption = hostile, .heading = {hostile}, .rows = {{hostile}}, .note = hostile}};
  const std::string page = to_markdown(report);
  EXPECT_FALSE(contains(page, "\x1b"));
  EXPECT_FALSE(contains(page, "\n# head"));
  std::string outside;  // of the fence, which is longer than any in the text
  const auto fence = page.find("````text\n");
  ASSERT_NE(fence, std::string::npos);
  outside = page.substr(0, fence) + page.substr(page.find("\n````\n", fence));
  EXPECT_FALSE(contains(outside, " <script")) << outside;
  EXPECT_FALSE(contains(outside, "@root")) << outside;
}

TEST(ReportPages, ShowFindingsWithTheirLines) {
  Report report = report_of({one_finding()});
  report.tables = {{.caption = "Hosts", .heading = {"host", "NCCL"}, .rows = {{"node1", "2.28"}}}};
  report.sections = {{.heading = "Drawn", .note = "a < b", .html = "<p>there</p>"},
                     {.heading = "Left out", .note = {}, .html = {}}};
  const std::string page = to_html(report);
  for (const char* words :
       {"<!doctype html>", "<html lang=\"en\">", "width=device-width", "default-src 'none'",
        "<h1>weft-report: NCCL job</h1>", "/dev/shm is too small", "logs/rank 0:12",
        "No space left on device", "<dt>Expected effect</dt><dd>the job starts</dd>",
        "<dt>Does not apply when</dt><dd>files fill it</dd>", "<h2>Hosts</h2>", "<h2>Drawn</h2>", "a &lt; b",
        "<p>there</p>"})
    EXPECT_TRUE(contains(page, words)) << words;
  EXPECT_FALSE(contains(page, "Left out"));
  EXPECT_TRUE(contains(to_html(report_of({})), "Nothing wrong is seen in 3 lines of 2 processes on 1 host."));
}

TEST(ReportPages, HoldNoScriptAndNoOtherFile) {
  Report report = report_of({hostile_finding()});
  report.tables = {{.caption = hostile, .heading = {hostile}, .rows = {{hostile}}, .note = hostile}};
  const std::string page = to_html(report);
  for (const char* words : {"<script", "src=", "href=", "@import", "\x1b", "\x07", "\u202e", "caf\xe9"})
    EXPECT_FALSE(contains(page, words)) << words;
  EXPECT_TRUE(contains(page, "&lt;script&gt;"));
}

}  // namespace
}  // namespace weft::report
