// Lines of NCCL's logs taken apart, under every launcher's tags, and phrases found in them.

#include "weft-report/nccl/log_line.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "weft-report/nccl/phrases.hpp"

namespace weft::report::nccl {
namespace {

TEST(NcclLogLine, IsTakenApart) {
  const std::string text =
      "[2026-03-01 10:00:00] gn41:78291:30341 [3] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion";
  const LogLine line = parse_log_line(text);
  EXPECT_EQ(line.level, Level::warn);
  EXPECT_EQ(line.host, "gn41");
  EXPECT_EQ(line.pid, 78291);
  EXPECT_EQ(line.tid, 30341);
  EXPECT_EQ(line.device, 3);
  EXPECT_EQ(line.stamp, "[2026-03-01 10:00:00] ");
  EXPECT_EQ(line.source, "transport/net_ib.cc:839");
  EXPECT_EQ(line.message, "NET/IB : Got completion");
}

TEST(NcclLogLine, OfVersionsBeforeTwoThreeLacksTheName) {
  const LogLine warns =
      parse_log_line("dj101:14560:14561 [0] misc/ibvwrap.cu:269 WARN Call to ibv_create_qp failed");
  EXPECT_EQ(warns.level, Level::warn);
  EXPECT_EQ(warns.host, "dj101");
  EXPECT_EQ(warns.source, "misc/ibvwrap.cu:269");
  EXPECT_EQ(warns.message, "Call to ibv_create_qp failed");
  EXPECT_EQ(parse_log_line("include/socket.h:344 WARN Socket creation failed : 7").level, Level::warn);
  const LogLine informs =
      parse_log_line("dj101:14560:14561 [0] INFO NET : Using interface enp3s0:10.1.0.1<0>");
  EXPECT_EQ(informs.level, Level::info);
  EXPECT_EQ(informs.device, 0);
  EXPECT_EQ(informs.message, "NET : Using interface enp3s0:10.1.0.1<0>");
  for (const char* other : {"[2026-03-01] INFO training begins", "12:00:00 WARN disk is full",
                            "train.py:17 WARN slow", "[worker] INFO a:b:c"})
    EXPECT_EQ(parse_log_line(other).level, Level::none) << other;
}

TEST(NcclLogLine, OfEveryLevelIsKnown) {
  EXPECT_EQ(parse_log_line("n1:1:2 [0] NCCL INFO a").level, Level::info);
  EXPECT_EQ(parse_log_line("n1:1:2 NCCL CALL ncclAllReduce").level, Level::call);
  const LogLine trace = parse_log_line("n1:1:2 [0] 12.345 ncclFoo:17 NCCL TRACE b");
  EXPECT_EQ(trace.level, Level::trace);
  EXPECT_EQ(trace.host, "n1");
  EXPECT_EQ(trace.device, 0);
  EXPECT_EQ(trace.source, "ncclFoo:17");
  EXPECT_EQ(parse_log_line("NCCL version 2.27.5+cuda12.9").level, Level::none);
  EXPECT_EQ(parse_log_line("NCCL version 2.27.5+cuda12.9").message, "NCCL version 2.27.5+cuda12.9");
}

TEST(NcclLogLine, IsReadUnderTagsOfLaunchers) {
  for (const std::string tag :
       {"[1,3]<stdout>:", "[1,3]<stderr>: ", "3: ", " 12: ", "[rank3]:", "[rank3]: ", "(pid=4711) ",
        "(RayWorker pid=4711, ip=10.0.0.2) ", "2026-03-01T10:00:00.123456789Z stdout F ",
        "Mar 01 10:00:00 login1 train[4711]: ", "[pod/train-0/main] ", "train-0 | ",
        "\x1b[36m(worker)\x1b[0m ", "2026-03-01 10:00:00 "}) {
    const std::string text = tag + "node-7:12:34 [5] NCCL INFO Using network IB\r";
    const LogLine line = parse_log_line(text);
    EXPECT_EQ(line.host, "node-7") << tag;
    EXPECT_EQ(line.pid, 12) << tag;
    EXPECT_EQ(line.tid, 34) << tag;
    EXPECT_EQ(line.device, 5) << tag;
    EXPECT_EQ(line.stamp, tag) << tag;
    EXPECT_EQ(line.message, "Using network IB") << tag;
  }
}

TEST(NcclLogLine, MayLackParts) {
  const LogLine bare = parse_log_line("NCCL INFO NET/Socket : Using [0]ib0:10.0.0.1<0>");
  EXPECT_EQ(bare.level, Level::info);
  EXPECT_TRUE(bare.host.empty());
  EXPECT_EQ(bare.pid, 0);
  EXPECT_EQ(bare.device, -1);
  const LogLine device = parse_log_line("[1] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]");
  EXPECT_EQ(device.device, 1);
  EXPECT_EQ(device.source, "misc/ibvwrap.cc:63");
  EXPECT_TRUE(device.host.empty());
  for (const std::string odd : {"", " ", "NCCL ", "NCCL INFO", "NCCL NCCL WARN x", ":::: NCCL INFO x",
                                "a:99999999999999999999:1 NCCL INFO x"})
    EXPECT_TRUE(parse_log_line(odd).host.empty()) << odd;
}

TEST(NcclLogLine, PrintedWithAnyValuesIsReadBack) {
  for (const std::string host : {"a", "gn41", "ip-10-0-0-1", "x_y"}) {
    for (const std::int64_t pid : {1, 77, 4194304}) {
      for (const int device : {0, 7, 15}) {
        for (const std::string message : {"Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", "a [3] b:1:2 c", "x"}) {
          const std::string text = host + ":" + std::to_string(pid) + ":" + std::to_string(pid + 1) + " [" +
                                   std::to_string(device) + "] NCCL INFO " + message;
          const LogLine line = parse_log_line(text);
          EXPECT_EQ(line.host, host);
          EXPECT_EQ(line.pid, pid);
          EXPECT_EQ(line.tid, pid + 1);
          EXPECT_EQ(line.device, device);
          EXPECT_EQ(line.message, message);
        }
      }
    }
  }
}

TEST(NcclLogLine, NumbersAndWordsInIt) {
  EXPECT_EQ(word_after("comm 0x1 rank 8 nranks 16", "nranks "), "16");
  EXPECT_EQ(word_after("comm 0x1 rank 8", "nranks "), "");
  EXPECT_EQ(number_in("0x1f rest", -1), 31);
  EXPECT_EQ(number_in("12", -1), 12);
  EXPECT_EQ(number_in("many", -1), -1);
  EXPECT_EQ(number_in("99999999999999999999", -1), -1);
}

TEST(NcclPhrases, AreFoundWhereverTheyStand) {
  const std::vector<std::string_view> phrases{"she", "he", "hers", "his", "NCCL WARN", "he"};
  const PhraseSet set(phrases);
  for (const std::string line : {"", "ushers", "this", "x NCCL NCCL WARN hers", "sshhee"}) {
    std::map<int, int> found;
    set.scan(line, [&](std::uint16_t phrase) { ++found[phrase]; });
    for (std::size_t i = 0; i < phrases.size(); ++i) {
      int expected = 0;
      for (std::size_t at = line.find(phrases[i]); at != std::string::npos;
           at = line.find(phrases[i], at + 1))
        ++expected;
      EXPECT_EQ(found[static_cast<int>(i)], expected) << phrases[i] << " in " << line;
    }
  }
  EXPECT_ANY_THROW(PhraseSet({""}));
}

}  // namespace
}  // namespace weft::report::nccl
