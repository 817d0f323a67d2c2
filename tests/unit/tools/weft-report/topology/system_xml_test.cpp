// NCCL's topology files, as they are and as they are not.

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.hpp"
#include "weft-report/topology/topology.hpp"

namespace weft::report::topology {
namespace {

using weft::test::expect_error;

const std::string one_host = R"(<system version="1">
  <cpu host_hash="0x8a31" numaid="0" affinity="00ff" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="17">
    <pci busid="0000:17:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="8">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:04:00.0" count="4" tclass="0x068000"/>
          <nvlink target="0000:05:00.0" count="14" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0" guid="0x5c257" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu host_hash="0x8a31" numaid="1" affinity="ff00" arch="x86_64">
    <pci busid="0000:99:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="1" sm="90"><c2c bw="44712" count="10"/></gpu>
    </pci>
  </cpu>
</system>
)";

TEST(TopologyFile, SaysWhatAHostIsMadeOf) {
  const std::vector<Host> hosts = read_system(one_host, "topo.xml");
  ASSERT_EQ(hosts.size(), 1U);
  const Host& host = hosts[0];
  EXPECT_EQ(host.hash, "0x8a31");
  EXPECT_EQ(host.switches, 1);
  ASSERT_EQ(host.cpus.size(), 2U);
  EXPECT_EQ(host.cpus[1].affinity, "ff00");
  ASSERT_EQ(host.gpus.size(), 2U);
  const Gpu& gpu = host.gpus[0];
  EXPECT_EQ(gpu.bus(), "0000:18:00.0");
  EXPECT_EQ(gpu.sm, 90);
  EXPECT_EQ(gpu.rank, 0);
  EXPECT_EQ(gpu.numa, 0);
  EXPECT_EQ(gpu.nvlinks(), 18);
  EXPECT_EQ(gpu.links[0].kind, NvTarget::nvswitch);
  ASSERT_NE(gpu.slowest(), nullptr);
  EXPECT_EQ(gpu.slowest()->link.width, 8);
  EXPECT_EQ(gpu.slowest()->link.gigabytes(), 24);
  EXPECT_EQ(gpu.slowest()->evidence.line, 4);
  EXPECT_EQ(gpu.evidence.line, 5);
  EXPECT_EQ(gpu.evidence.text, R"(<gpu dev="0" sm="90" rank="0" gdr="1">)");
  ASSERT_EQ(host.nics.size(), 1U);
  EXPECT_EQ(host.nics[0].name, "mlx5_0");
  EXPECT_EQ(host.nics[0].megabits, 400000);
  EXPECT_EQ(distance(gpu, host.nics[0]), Distance::pix);
  EXPECT_EQ(distance(host.gpus[1], host.nics[0]), Distance::sys);
  EXPECT_EQ(host.gpus[1].slowest(), nullptr);
  EXPECT_DOUBLE_EQ(host.gpus[1].c2c_gigabytes, 447.12);
}

TEST(TopologyFile, OfARackHoldsSeveralHosts) {
  const std::vector<Host> hosts = read_system(
      R"(<system version="1"><cpu host_hash="0x1" numaid="0"/><cpu host_hash="0x2" numaid="0"/><cpu host_hash="0x1" numaid="1"/></system>)",
      "topo.xml");
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0].cpus.size(), 2U);
}

TEST(TopologyFile, ThatIsBrokenSaysWhere) {
  expect_error(ErrorKind::usage, {"line 2: "},
               [] { read_system("<system version=\"1\">\n<cpu numaid=\"0\"", "topo.xml"); });
  expect_error(ErrorKind::usage, {"line 1: version \"2\" of <system>; 1 is known"},
               [] { read_system("<system version=\"2\"/>", "topo.xml"); });
  expect_error(ErrorKind::usage, {"<system> has no <cpu>"},
               [] { read_system("<system version=\"1\"/>", "topo.xml"); });
}

}  // namespace
}  // namespace weft::report::topology
