// Files of settings, as each kind is read, and settings of several ranks.

#include "weft-report/env/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/expect_error.hpp"
#include "unit/tools/weft-report/env/environments.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using test::causes_of;
using test::expect_error;
using test::settings_of;
using Causes = std::set<std::string>;

Settings environment(const std::string& content, const std::string& file = "f") {
  return read_settings(content, file, Lines::environment);
}

Settings configuration(const std::string& content) {
  return read_settings(content, "nccl.conf", Lines::configuration);
}

std::string value(const Settings& settings, std::string_view name) {
  const Setting* one = settings.find(name);
  return one == nullptr ? "(unset)" : text(one->value, '@', one->line);
}

TEST(SettingsFile, OutputOfEnv) {
  const Settings read = environment(
      "PATH=/bin:/usr/bin\nBASH_FUNC_ml%%=() {  eval "
      "\"$(ml_cmd)\"\n}\nNCCL_SOCKET_IFNAME==eth0\r\nNCCL_DEBUG=\n# NCCL_ALGO=Ring\n");
  EXPECT_EQ(value(read, "PATH"), "/bin:/usr/bin@1");
  EXPECT_EQ(value(read, "NCCL_SOCKET_IFNAME"), "=eth0@4");
  EXPECT_EQ(value(read, "NCCL_DEBUG"), "@5");
  EXPECT_EQ(value(read, "NCCL_ALGO"), "(unset)");
  EXPECT_EQ(read.values.size(), 3U);
  EXPECT_TRUE(read.whole);
}

TEST(SettingsFile, ScriptsManifestsAndMpirun) {
  EXPECT_EQ(value(environment("set -e\n  export NCCL_ALGO=\"Ring\"\n"), "NCCL_ALGO"), "Ring@2");
  EXPECT_EQ(value(environment("declare -x NCCL_ALGO='Ring'"), "NCCL_ALGO"), "Ring@1");
  const Settings manifest = environment(
      "kind: Pod\n    env:\n    - name: NCCL_DEBUG\n      value: \"INFO\"\n    - name: SECRET\n      "
      "valueFrom: x\n    - name: NCCL_IB_HCA\n      value: mlx5\n");
  EXPECT_EQ(value(manifest, "NCCL_DEBUG"), "INFO@4");
  EXPECT_EQ(value(manifest, "NCCL_IB_HCA"), "mlx5@8");
  EXPECT_EQ(manifest.find("SECRET"), nullptr);
  const Settings mpirun = environment("mpirun -n 2 -x NCCL_DEBUG=INFO -x PATH -x NCCL_ALGO=Tree ./train\n");
  EXPECT_EQ(value(mpirun, "NCCL_DEBUG"), "INFO@1");
  EXPECT_EQ(value(mpirun, "NCCL_ALGO"), "Tree@1");
  const Settings process = environment(std::string("A=1\0NCCL_DEBUG=IN\nFO\0", 22));
  EXPECT_EQ(value(process, "NCCL_DEBUG"), "IN\nFO@2");
}

TEST(SettingsFile, ALogSaysWhatNcclTook) {
  const Settings log = environment(
      "node0:12:34 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 44.\n"
      "node0:12:34 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0.100\n"
      "node0:12:34 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE x=1\n"
      "NCCL_ALGO is set by environment to nothing here\n"
      "node0:12:34 [0] NCCL INFO NCCL_DEBUG_SUBSYS set by environment to NET\n");
  EXPECT_EQ(value(log, "NCCL_IB_TIMEOUT"), "44@1");
  EXPECT_EQ(value(log, "NCCL_SOCKET_IFNAME"), "eth0.100@2");
  EXPECT_EQ(log.values.size(), 3U);
  EXPECT_FALSE(log.whole);
  EXPECT_EQ(causes_of(lint({log}, newest_known)), Causes{"value-not-allowed"});
}

TEST(SettingsFile, ConfigurationIsReadAsStrictlyAsNcclDoes) {
  const Settings read = configuration("# comment\n\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==ens1f0\n");
  EXPECT_EQ(value(read, "NCCL_SOCKET_IFNAME"), "=ens1f0@4");
  EXPECT_TRUE(read.remarks.empty());
  EXPECT_FALSE(read.whole);
  for (const char* ignored : {"export NCCL_DEBUG=WARN", " NCCL_DEBUG=WARN", "NCCL_DEBUG = WARN",
                              "NCCL_DEBUG WARN", "  # comment", "[nccl]"}) {
    const Settings one = configuration(ignored);
    EXPECT_EQ(causes_of(one.remarks), Causes{"conf-line-ignored"}) << ignored;
    EXPECT_TRUE(one.values.empty()) << ignored;
  }
  for (const char* rest : {"NCCL_DEBUG=WARN ", "NCCL_DEBUG=WARN # loud", "NCCL_DEBUG=WARN\r"})
    EXPECT_EQ(causes_of(configuration(rest).remarks), Causes{"conf-value-with-rest"}) << rest;
  EXPECT_EQ(causes_of(configuration("NCCL_ALGO=\"Ring\"").remarks), Causes{"value-in-quotes"});
  const Settings longest = configuration("NCCL_IB_HCA=" + std::string(1024, 'm'));
  EXPECT_EQ(causes_of(longest.remarks), Causes{"conf-value-cut"});
  EXPECT_EQ(longest.find("NCCL_IB_HCA")->value.size(), 1023U);
  EXPECT_TRUE(configuration("NCCL_IB_HCA=" + std::string(1023, 'm')).remarks.empty());
}

TEST(SettingsFile, QuotesStayWhereNoShellTakesThem) {
  EXPECT_EQ(causes_of(environment("NCCL_ALGO=\"Ring\"").remarks), Causes{"value-in-quotes"});
  EXPECT_TRUE(environment("export NCCL_ALGO=\"Ring\"").remarks.empty());
  EXPECT_TRUE(environment("PS1=\"$ \"").remarks.empty());
}

TEST(SettingsFile, OneOfTwoLinesCounts) {
  const std::string twice = "NCCL_ALGO=Ring\nNCCL_ALGO=Tree\n";
  EXPECT_EQ(value(environment(twice), "NCCL_ALGO"), "Tree@2");
  EXPECT_EQ(value(configuration(twice), "NCCL_ALGO"), "Ring@1");
  for (const Settings& one : {environment(twice), configuration(twice)}) {
    ASSERT_EQ(causes_of(one.remarks), Causes{"set-twice"});
    EXPECT_EQ(one.remarks[0].evidence.size(), 2U);
  }
  EXPECT_TRUE(environment("NCCL_ALGO=Ring\nNCCL_ALGO=Ring\n").remarks.empty());
}

TEST(SettingsFile, IsRefusedWhereItHoldsNone) {
  expect_error(ErrorKind::usage, {"f: is empty; give the output of env"}, [] { environment(""); });
  expect_error(ErrorKind::usage, {"f: is a binary file"}, [] {
    environment(
        std::string("\x7f"
                    "ELF\0\1\2\0",
                    8));
  });
  expect_error(ErrorKind::usage, {"f: has no line NAME=VALUE"}, [] { environment("hello\nworld\n"); });
  expect_error(ErrorKind::usage, {"nccl.conf: is a binary file"},
               [] { configuration(std::string("\0\1", 2)); });
  EXPECT_TRUE(configuration("# nothing yet\n").values.empty());
  EXPECT_EQ(lines_of("/etc/nccl.conf"), Lines::configuration);
  EXPECT_EQ(lines_of("conf.env"), Lines::environment);
}

TEST(SettingsFile, ALongLineIsNoTrouble) {
  const std::string megabyte(1 << 20, 'x');
  const Settings read =
      environment(megabyte + "\nNCCL_ALGO=" + megabyte + "\nNCCL_" + megabyte + "=1\nNCCL_DEBUG=WARN\n");
  EXPECT_EQ(read.values.size(), 2U);
  for (const Finding& one : lint({read}, newest_known)) {
    EXPECT_LT(one.verdict.size(), 400U);
    for (const Evidence& evidence : one.evidence) EXPECT_LE(evidence.text.size(), 160U);
  }
}

// Bytes of any kind are settings, remarks or an error, and never a crash; what is shown can stand in JSON and on a terminal.
TEST(SettingsFile, AnyBytesAreReadOrRefused) {
  std::mt19937 random(24);  // NOLINT: the same bytes each time
  const std::string letters = std::string("NCCL_DEBUG=INFO\n\r\t #'\"^,;:|x-.0129\xff\x80") + '\0';
  int refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string content;
    for (auto left = random() % 60; left > 0; --left) {
      if (random() % 8 == 0) content += "NCCL_IB_TIMEOUT=";
      content += letters[random() % letters.size()];
    }
    try {
      const Settings read =
          read_settings(content, "f", random() % 2 == 0 ? Lines::environment : Lines::configuration);
      for (const Finding& one : lint({read, settings_of({"NCCL_ALGO=Ring"})}, newest_known)) {
        for (const Evidence& evidence : one.evidence) {
          EXPECT_TRUE(std::ranges::all_of(evidence.text, [](unsigned char c) {
            return c >= 0x20 && c < 0x7f;
          })) << evidence.text;
        }
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 19000);
}

TEST(SettingsOfAProcess, TheEnvironmentGoesFirstAndThenTheFirstFile) {
  const Settings user =
      read_settings("NCCL_DEBUG=INFO\nNCCL_ALGO=Tree\n", "/home/u/.nccl.conf", Lines::configuration);
  const Settings system =
      read_settings("NCCL_ALGO=Ring\nNCCL_IB_HCA=mlx5\n", "/etc/nccl.conf", Lines::configuration);
  const Settings all = settings_of_process({"NCCL_DEBUG=WARN", "HOME=/home/u", "odd"}, {user, system});
  EXPECT_EQ(all.find("NCCL_DEBUG")->file, "environment");
  EXPECT_EQ(all.find("NCCL_DEBUG")->value, "WARN");
  EXPECT_EQ(all.find("NCCL_ALGO")->file, "/home/u/.nccl.conf");
  EXPECT_EQ(all.find("NCCL_IB_HCA")->file, "/etc/nccl.conf");
  ASSERT_EQ(all.remarks.size(), 2U);
  EXPECT_EQ(causes_of(all.remarks), Causes{"conf-value-hidden"});
  EXPECT_EQ(all.remarks[0].verdict,
            "NCCL_DEBUG of /home/u/.nccl.conf has no effect: environment sets it, too");
  EXPECT_EQ(all.remarks[0].severity, Severity::notice);
}

TEST(SettingsShown, KeepSecretsAndFitTheLine) {
  EXPECT_EQ(shown({"NCCL_PSK", "hush", "f", 1}), "NCCL_PSK=(a secret)");
  EXPECT_EQ(configuration("export NCCL_PSK=hush").remarks.at(0).evidence.at(0).text, "NCCL_PSK=(a secret)");
  EXPECT_EQ(shown({"A", "b\x1b[31m\xff", "f", 1}), "A=b?[31m?");
  EXPECT_EQ(shown({"A", std::string(200, 'b'), "f", 1}).size(), 160U);
}

Settings rank(const std::string& who, std::vector<std::string> lines) {
  Settings settings = settings_of(lines);
  settings.who = who;
  return settings;
}

TEST(SettingsOfRanks, WhatMustBeEqualIsCritical) {
  const std::vector<Settings> ranks{rank("a", {"NCCL_ALGO=Ring"}), rank("b", {"NCCL_ALGO=Ring"}),
                                    rank("c", {"NCCL_ALGO=Tree"})};
  const std::vector<Finding> findings = compare_ranks(ranks);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].cause, "env-mismatch");
  EXPECT_EQ(findings[0].severity, Severity::critical);
  EXPECT_EQ(findings[0].evidence[0].text, "NCCL_ALGO=Ring (alike in 2: a, b)");
  EXPECT_EQ(findings[0].evidence[1].text, "NCCL_ALGO=Tree");
  EXPECT_EQ(exit_status(findings), 2);
}

TEST(SettingsOfRanks, SomeMayDifferAndOneValueHasManyForms) {
  const auto compared = [](const std::string& a, const std::string& b) {
    return compare_ranks({rank("a", {"NCCL_DEBUG=WARN", a}), rank("b", {"NCCL_DEBUG=WARN", b})});
  };
  EXPECT_TRUE(compared("NCCL_DEBUG_FILE=a", "NCCL_DEBUG_FILE=b").empty());
  EXPECT_TRUE(compared("NCCL_IB_HCA==mlx5_0", "NCCL_IB_HCA==mlx5_2").empty());
  EXPECT_TRUE(compared("NCCL_HOSTID=a", "X=b").empty());
  EXPECT_TRUE(compared("NCCL_BUFFSIZE=0x10", "NCCL_BUFFSIZE=16").empty());
  EXPECT_TRUE(compared("PATH=a", "PATH=b").empty());
  const auto slower = compared("NCCL_IB_TIMEOUT=20", "NCCL_IB_TIMEOUT=22");
  ASSERT_EQ(slower.size(), 1U);
  EXPECT_EQ(slower[0].severity, Severity::warning);
  EXPECT_EQ(causes_of(compared("NCCL_VERSION=2.28.9", "NCCL_VERSION=2.20.5")), Causes{"version-mismatch"});
  EXPECT_TRUE(compared("NCCL_VERSION=2.28.9", "X=1").empty());
}

TEST(SettingsOfRanks, WhatDidNotArriveIsNamedWithTheWayItTakes) {
  const auto fix = [](const std::string& launcher) {
    const auto findings = compare_ranks(
        {rank("a", {"NCCL_PROTO=LL", "NCCL_DEBUG=WARN"}), rank("b", {"NCCL_DEBUG=WARN", launcher})});
    return findings.size() == 1 ? findings[0].fix : "(none)";
  };
  EXPECT_NE(fix("OMPI_COMM_WORLD_RANK=1").find("mpirun passes to other hosts only what -x NAME names"),
            std::string::npos);
  EXPECT_NE(fix("KUBERNETES_SERVICE_HOST=x").find("manifest of each pod"), std::string::npos);
  EXPECT_NE(fix("SLURM_PROCID=1").find("SLURM_EXPORT_ENV"), std::string::npos);
  EXPECT_NE(fix("X=1").find("ssh passes no variables"), std::string::npos);
  const auto bare =
      compare_ranks({rank("a", {"NCCL_PROTO=LL"}), rank("b", {"PATH=/bin"}), rank("c", {"PATH=/bin"})});
  ASSERT_EQ(bare.size(), 1U);
  EXPECT_EQ(bare[0].cause, "environment-not-passed");
  EXPECT_EQ(bare[0].verdict, "2 of 3 files have no setting of NCCL: b, c");
  EXPECT_TRUE(compare_ranks({rank("a", {"X=1"}), rank("b", {"PATH=/bin"})}).empty());
}

TEST(Lint, MergesWhatRanksHaveAlike) {
  std::vector<Settings> ranks;
  for (int i = 0; i < 20; ++i)
    ranks.push_back(rank(text("rank", i), {"NCCL_IB_DISABEL=1", "NCCL_CHUNK_SIZE=2097152"}));
  const std::vector<Finding> findings = lint(ranks, newest_known);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].cause, "chunk-size-too-large");
  EXPECT_EQ(findings[0].severity, Severity::critical);
  EXPECT_EQ(findings[1].cause, "unknown-variable");
  EXPECT_EQ(findings[1].evidence.size(), 8U);
  EXPECT_NE(findings[1].verdict.find("(and in 12 more places)"), std::string::npos) << findings[1].verdict;
}

TEST(Lint, AnEmptyValueIsNotSet) {
  for (const char* const empty : {"NCCL_DEBUGG=", "NCCL_ALGO=", "NCCL_IB_TIMEOUT=", "NCCL_CHUNK_SIZE=",
                                  "NCCL_TREE_THRESHOLD=", "NCCL_P2P_DISABLE=", "NCCL_BUFFSIZE="}) {
    EXPECT_TRUE(lint({settings_of({empty})}, newest_known).empty()) << empty;
    EXPECT_EQ(count_settings(settings_of({empty})), 0) << empty;
  }
  EXPECT_TRUE(
      compare_ranks({rank("a", {"NCCL_ALGO=", "NCCL_DEBUG=WARN"}), rank("b", {"NCCL_DEBUG=WARN"})}).empty());
  for (const Variable& one : nccl_variables()) {
    const auto empty = lint({settings_of({text(one.name, "=")})}, newest_known);
    EXPECT_TRUE(empty.empty()) << one.name;
  }
}

TEST(Lint, WhatIsNotDocumentedIsNamedWhereItCountsForEveryJob) {
  const auto causes = [](Lines lines) {
    return causes_of(
        lint({read_settings("NCCL_CONNECT_ROUND_MAX_PEERS=4\n", "nccl.conf", lines)}, newest_known));
  };
  EXPECT_EQ(causes(Lines::configuration), Causes{"internal-setting"});
  EXPECT_EQ(causes(Lines::environment), Causes{});
}

TEST(Lint, HealthySettingsHaveNoFinding) {
  EXPECT_TRUE(lint({settings_of({"NCCL_DEBUG=WARN", "NCCL_SOCKET_IFNAME==eth0", "NCCL_IB_HCA==mlx5_0,mlx5_1",
                                 "NCCL_IB_TC=106", "NCCL_IB_QPS_PER_CONNECTION=4", "NCCL_CROSS_NIC=0",
                                 "NCCL_MAX_CTAS=16", "PATH=/bin", "NCCL_VERSION=2.32.3-1",
                                 "NCCL_DEBUG_FILE=/tmp/%h.%p"})},
                   newest_known)
                  .empty());
}

}  // namespace
}  // namespace weft::report
