// ulimit of every shell, and lspci.

#include "weft-report/topology/host_limits.hpp"

#include <gtest/gtest.h>

#include "unit/tools/weft-report/topology/tool_lines.hpp"
#include "weft/core/text.hpp"

namespace weft::report::topology {
namespace {

using test::facts_of;
using weft::test::Draw;

TEST(HostLimits, AreReadOfEveryShell) {
  const auto limit = [](const std::string& line) {
    const ToolFacts facts = facts_of(line + "\n");
    return facts.limits.size() == 1 ? std::pair(facts.limits[0].of, facts.limits[0].value)
                                    : std::pair(LimitOf::open_files, std::int64_t{-2});
  };
  using enum LimitOf;
  Draw draw(1);
  for (int i = 0; i < 100; ++i) {
    const std::int64_t n = draw.below(1 << 30);
    for (const std::string& line :
         {text("max locked memory           (kbytes, -l) ", n),
          text("node1: max locked memory       (kbytes, -l) ", n), text("locked memory(kbytes) ", n),
          text("-l: locked-in-memory size (kbytes)  ", n), text("memorylocked ", n, " kbytes"),
          text("Max locked memory         ", n * 1024, "              unlimited            bytes     ")})
      EXPECT_EQ(limit(line), std::pair(locked_memory, n * 1024)) << line;
    for (const std::string& line :
         {text("open files                          (-n) ", n), text("nofiles              ", n),
          text("-n: file descriptors                ", n), text("descriptors  ", n, " "),
          text("Max open files            ", n, "              1048576              files     ")})
      EXPECT_EQ(limit(line), std::pair(open_files, n)) << line;
  }
  EXPECT_EQ(limit("max locked memory       (kbytes, -l) unlimited"),
            std::pair(locked_memory, std::int64_t{-1}));
  for (const char* line : {"the limit of locked memory is 64", "max locked memory", "Too many open files",
                           "open files 7 of 9 done", "max locked memory (kbytes, -l) 99999999999999999999"})
    EXPECT_EQ(limit(line).second, -2) << line;
}

TEST(PciStatus, IsReadWithItsDevice) {
  const ToolFacts facts = facts_of(
      "18:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n"
      "\tSubsystem: NVIDIA Corporation\n"
      "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported\n"
      "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)\n"
      "\t\tLnkSta2: Current De-emphasis Level: -6dB\n"
      "1a:00.0 Infiniband controller: Mellanox Technologies MT2910 Family\n"
      "\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)\n"
      "00:1f.0 ISA bridge: Intel\n"
      "00:14.0 USB controller: Intel\n"
      "\t\tLnkSta:\tSpeed 5GT/s, Width x1\n");
  ASSERT_EQ(facts.pci.size(), 2U);
  EXPECT_EQ(facts.pci[0].bus, "18:00.0");
  EXPECT_EQ(facts.pci[0].what, "3D controller");
  EXPECT_EQ(facts.pci[0].able.width, 16);
  EXPECT_EQ(facts.pci[0].now.width, 8);
  EXPECT_EQ(facts.pci[0].now.gigatransfers, 2.5);
  EXPECT_EQ(facts.pci[0].evidence.line, 4);
  EXPECT_EQ(facts.pci[1].now.width, 16);
  EXPECT_FALSE(facts.pci[1].able.known());
}

}  // namespace
}  // namespace weft::report::topology
