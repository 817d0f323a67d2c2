// Output of ibv_devinfo: printed at random, mixed between hosts, cut, and read back.

#include "weft-report/topology/port.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "unit/tools/weft-report/topology/tool_lines.hpp"
#include "weft/core/text.hpp"

namespace weft::report::topology {
namespace {

using test::facts_of;
using test::Lines;
using test::mixed;
using test::tagged;
using weft::test::Draw;

Port random_port(Draw& draw, int number) {
  Port port{.number = number};
  port.state.value = draw.one_of<const char*>({"PORT_ACTIVE", "PORT_DOWN", "PORT_INIT", "PORT_ARMED"});
  port.link_layer.value = draw.one_of<const char*>({"InfiniBand", "Ethernet"});
  port.mtu.value = draw.one_of<const char*>({"1024", "2048", "4096"});
  port.max_mtu = 4096;
  port.lanes = draw.one_of<int>({1, 2, 4, 8});
  port.lane_gigabits = draw.one_of<double>({2.5, 10, 14, 25, 50, 100});
  port.physical = draw.one_of<const char*>({"LINK_UP", "DISABLED", "POLLING"});
  for (int i = draw.below(4); i > 0; --i)
    port.gids.push_back({.index = 4 - i,
                         .address = text("fe80:0000:0000:0000:b8ce:f603:00a4:0b", 10 + draw.below(89)),
                         .type = draw.once_in(2) ? "RoCE v2" : ""});
  return port;
}

Lines print(const std::string& hca, const std::string& part, const std::vector<Port>& ports) {
  Lines lines{"hca_id:\t" + hca,
              "\ttransport:\t\t\tInfiniBand (0)",
              "\tfw_ver:\t\t\t\t28.36.1010",
              "\tnode_guid:\t\t\tb8ce:f603:00a4:0b1c",
              "\tvendor_id:\t\t\t0x02c9",
              "\tvendor_part_id:\t\t\t" + part,
              "\tphys_port_cnt:\t\t\t" + std::to_string(ports.size())};
  for (const Port& port : ports) {
    const auto add = [&](const std::string& key, const std::string& value) {
      lines.push_back("\t\t\t" + key + ":\t\t" + value);
    };
    lines.push_back("\t\tport:\t" + std::to_string(port.number));
    add("state", port.state.value + " (4)");
    add("max_mtu", std::to_string(port.max_mtu) + " (5)");
    add("active_mtu", port.mtu.value + " (5)");
    add("sm_lid", "1");
    add("port_lid", "33");
    add("link_layer", port.link_layer.value);
    add("gid_tbl_len", "8");
    add("active_width", std::to_string(port.lanes) + "X (2)");
    char speed[64];
    std::snprintf(speed, sizeof speed, "%.1f Gbps (64)", port.lane_gigabits);
    add("active_speed", speed);
    add("phys_state", port.physical + " (5)");
    for (const Gid& gid : port.gids) {
      char key[64];
      std::snprintf(key, sizeof key, "GID[%3d]", gid.index);
      add(key, gid.address + (gid.type.empty() ? "" : ", " + gid.type));
    }
  }
  lines.emplace_back();
  return lines;
}

void expect_same(const Port& read, const Port& meant) {
  EXPECT_EQ(std::tuple(read.number, read.state.value, read.link_layer.value, read.mtu.value, read.max_mtu,
                       read.lanes, read.lane_gigabits, read.physical, read.gids.size()),
            std::tuple(meant.number, meant.state.value, meant.link_layer.value, meant.mtu.value,
                       meant.max_mtu, meant.lanes, meant.lane_gigabits, meant.physical, meant.gids.size()));
  EXPECT_EQ(read.megabits(), static_cast<std::int64_t>(meant.lanes * meant.lane_gigabits * 1000));
  for (std::size_t i = 0; i < std::min(read.gids.size(), meant.gids.size()); ++i)
    EXPECT_EQ(std::tuple(read.gids[i].index, read.gids[i].address, read.gids[i].type),
              std::tuple(meant.gids[i].index, meant.gids[i].address, meant.gids[i].type));
}

TEST(RdmaPorts, PrintedAtRandomAreReadBack) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    std::vector<Port> first;
    std::vector<Port> second;
    for (int i = 1 + draw.below(2); i > 0; --i)
      first.push_back(random_port(draw, static_cast<int>(first.size()) + 1));
    second.push_back(random_port(draw, 1));
    ToolFacts facts = facts_of(mixed(tagged(print("mlx5_0", "4129", first), "node1: "),
                                     tagged(print("mlx5_1", "4123", second), "node2: "), draw));
    ASSERT_EQ(facts.ports.size(), first.size() + 1);
    std::ranges::stable_sort(facts.ports, {}, &Port::host);
    for (std::size_t i = 0; i < first.size(); ++i) {
      expect_same(facts.ports[i], first[i]);
      EXPECT_EQ(facts.ports[i].hca, "mlx5_0");
      EXPECT_EQ(facts.ports[i].part, "4129");
    }
    expect_same(facts.ports.back(), second[0]);
    EXPECT_EQ(facts.ports.back().host, "node2");
  }
}

TEST(RdmaPorts, CutAnywhereNeverBreakTheReader) {
  Draw draw(7);
  std::string whole;
  for (const std::string& line : print("mlx5_0", "4129", {random_port(draw, 1), random_port(draw, 2)}))
    whole += line + "\n";
  for (std::size_t length = 0; length <= whole.size(); ++length)
    EXPECT_LE(facts_of(whole.substr(0, length)).ports.size(), 2U);
}

TEST(RdmaPorts, AreKeptUpToALimit) {
  std::string content;
  for (int i = 0; i < 5000; ++i) content += "hca_id: mlx5_0\n";
  content += "hca_id: " + std::string(1 << 20, 'x') + "\n\tstate: " + std::string(1 << 20, 'y') + "\n";
  EXPECT_EQ(facts_of(content).ports.size(), 4096U);
}

}  // namespace
}  // namespace weft::report::topology
