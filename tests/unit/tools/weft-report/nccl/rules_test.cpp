// Rules fire on their lines and not on lines nearly the same, and the tables are whole.

#include "weft-report/nccl/rules/rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "unit/tools/weft-report/nccl/rule_examples.hpp"
#include "weft-report/env/nccl_version.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft/core/error.hpp"

namespace weft::report::nccl {
namespace {

JobLog log_of(const std::string& content) {
  JobLog log;
  if (!content.starts_with("=== ")) {
    log.add(content, "log");
    return log;
  }
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t name = at + 4;
    const std::size_t begin = content.find('\n', name) + 1;
    at = std::min(content.find("\n=== ", begin), content.size() - 1) + 1;
    EXPECT_EQ(log.add(content.substr(begin, at - begin), content.substr(name, begin - 1 - name)), "");
  }
  return log;
}
/// For rules of whole jobs.
std::vector<test::RuleExample> examples_of_jobs() {
  std::vector<test::RuleExample> all = test::job_examples();
  all.insert(all.end(), test::topology_examples().begin(), test::topology_examples().end());
  all.insert(all.end(), test::bandwidth_examples().begin(), test::bandwidth_examples().end());
  return all;
}
const Finding* finding(const std::vector<Finding>& findings, std::string_view cause) {
  const auto found = std::ranges::find(findings, cause, &Finding::cause);
  return found == findings.end() ? nullptr : &*found;
}

void expect_fires(const test::RuleExample& example) {
  const std::vector<Finding> findings = examine(log_of(example.fires).job());
  const Finding* one = finding(findings, example.cause);
  ASSERT_NE(one, nullptr) << example.cause << " is not found in:\n" << example.fires;
  ASSERT_FALSE(one->evidence.empty()) << example.cause;
  if (example.of_records) return;  // what they show has no line
  EXPECT_TRUE(one->evidence[0].file == "log" || example.fires.starts_with("=== ")) << one->evidence[0].file;
  EXPECT_GT(one->evidence[0].line, 0);
  EXPECT_NE(example.fires.find(one->evidence[0].text), std::string::npos);
}
/// Named as one of several causes it may be.
void expect_silent(const test::RuleExample& example) {
  const std::vector<Finding> findings = examine(log_of(example.near_miss).job());
  const Finding* one = finding(findings, example.cause);
  const bool sure = one != nullptr && !one->verdict.starts_with("possible, while ");
  EXPECT_FALSE(sure) << example.cause << " is found in:\n" << example.near_miss;
}

TEST(NcclRules, OfLinesFireOnTheirsAndNotOnOnesNearlyTheSame) {
  for (const test::RuleExample& example : test::line_examples()) {
    expect_fires(example);
    expect_silent(example);
  }
}

TEST(NcclRules, OfJobsFireOnTheirsAndNotOnOnesNearlyTheSame) {
  for (const test::RuleExample& example : examples_of_jobs()) {
    expect_fires(example);
    expect_silent(example);
  }
}

TEST(NcclRules, OfBandwidthsStepBehindTheirCauses) {
  const test::RuleExample& slow = test::bandwidth_examples()[2];
  ASSERT_EQ(slow.cause, "bandwidth-low");
  EXPECT_EQ(examine(log_of(slow.fires).job())[0].severity, Severity::warning);
  const std::vector<Finding> findings =
      examine(log_of(slow.fires + "node1:7:7 [0] NCCL INFO NCCL_ALGO set by environment to Tree\n").job());
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].cause, "setting-left-over");
  EXPECT_EQ(findings[1].cause, "bandwidth-low");
  EXPECT_EQ(findings[1].severity, Severity::notice);
}

TEST(NcclRules, OfLinesHaveAnExampleEach) {
  std::set<std::size_t> fired;
  for (const test::RuleExample& example : test::line_examples()) {
    const JobLog log = log_of(example.fires);
    for (std::size_t i = 0; i < line_rules().size(); ++i) {
      const LineRule& rule = line_rules()[i];
      if (rule.cause == example.cause && log.job().matches[i].count > 0 &&
          (rule.when == nullptr || rule.when(log.job())))
        fired.insert(i);
    }
  }
  for (std::size_t i = 0; i < line_rules().size(); ++i)
    EXPECT_TRUE(fired.contains(i)) << line_rules()[i].cause << ": " << line_rules()[i].phrases[0]
                                   << " has no example";
}

TEST(NcclRules, OfJobsHaveAnExampleEach) {
  const std::vector<test::RuleExample> examples = examples_of_jobs();
  for (const std::span<const JobRule> table : all_job_rules()) {
    for (const JobRule& rule : table) {
      const bool fired = std::ranges::any_of(examples, [&](const test::RuleExample& example) {
        std::vector<Finding> findings;
        rule.find(log_of(example.fires).job(), findings);
        return !findings.empty();
      });
      EXPECT_TRUE(fired) << rule.cause << ": " << rule.looks_for;
    }
  }
}

TEST(NcclRules, HaveACauseWithAFixEach) {
  for (const LineRule& rule : line_rules()) EXPECT_NO_THROW(cause_named(rule.cause)) << rule.cause;
  std::set<std::string_view> names;
  for (const Cause& cause : causes()) {
    EXPECT_TRUE(names.insert(cause.name).second) << cause.name << " stands there twice";
    EXPECT_FALSE(cause.verdict.empty()) << cause.name;
    EXPECT_FALSE(cause.fix.empty()) << cause.name;
    EXPECT_FALSE(cause.effect.empty()) << cause.name << " does not say what its fix brings";
    EXPECT_FALSE(cause.not_when.empty()) << cause.name << " does not say when it does not apply";
    if (!cause.versions.empty()) {
      EXPECT_NO_THROW(is_among(newest_known, cause.versions)) << cause.name;
    }
  }
  EXPECT_THROW(cause_named("bad-luck"), Error);
}

TEST(NcclRules, CauseThatIsSeenOftenSaysHowOftenAndWhere) {
  std::string log;
  for (int host = 1; host <= 6; ++host)
    log +=
        "node" + std::to_string(host) + ":7:7 [0] net.cc:1 NCCL WARN NET/IB : Got async event : port error\n";
  const std::vector<Finding> findings = examine(log_of(log).job());
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].evidence.size(), 3U);
  EXPECT_NE(findings[0].verdict.find("(6 lines on node1, node2, node3, node4 and 2 more hosts)"),
            std::string::npos)
      << findings[0].verdict;
}

TEST(NcclRules, AreSilentInVersionsThatDoNotHaveTheirCause) {
  const std::string nvls =
      "node1:7:7 [0] transport/nvls.cc:1 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory\n";
  const auto of = [](const std::string& version) {
    return "node1:7:7 [0] NCCL INFO NCCL version " + version + "+cuda12.2\n";
  };
  EXPECT_NE(finding(examine(log_of(nvls).job()), "nvls-fabricmanager"), nullptr) << "no version is named";
  EXPECT_NE(finding(examine(log_of(of("2.17.1") + nvls).job()), "nvls-fabricmanager"), nullptr);
  EXPECT_EQ(finding(examine(log_of(of("2.16.5") + nvls).job()), "nvls-fabricmanager"), nullptr);
  EXPECT_NE(finding(examine(log_of(of("2.16.5") + of("2.28.9") + nvls).job()), "nvls-fabricmanager"), nullptr)
      << "one of the ranks has a version that can fail so";
}

TEST(NcclRules, SayWhatTheFixBringsAndWhenItDoesNotApply) {
  const std::vector<Finding> findings =
      examine(log_of("node1:7:7 [0] x.cc:1 NCCL WARN Duplicate GPU detected\n").job());
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].effect, cause_named("duplicate-gpu").effect);
  EXPECT_EQ(findings[0].not_when, cause_named("duplicate-gpu").not_when);
}

TEST(NcclRules, PutTheSurestCriticalCauseFirst) {
  const std::string settings = "node1:7:7 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n";
  const std::string closed =
      "node1:7:7 [0] socket.cc:1 NCCL WARN socketProgress: Connection closed by remote peer node2<1>\n";
  const std::string duplicate =
      "node2:7:7 [0] init.cc:1 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device "
      "2000\n";
  const std::vector<Finding> findings = examine(log_of(settings + closed + duplicate).job());
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].cause, "duplicate-gpu");
  EXPECT_EQ(findings[1].cause, "setting-left-over");
  EXPECT_EQ(findings[2].cause, "peer-lost");
  EXPECT_EQ(exit_status(findings), 2);
}

}  // namespace
}  // namespace weft::report::nccl
