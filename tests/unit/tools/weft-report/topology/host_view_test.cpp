// The same host, as NCCL's topology file and nvidia-smi topo -m state it.

#include "weft-report/topology/host_view.hpp"

#include <gtest/gtest.h>

#include "unit/tools/weft-report/topology/tool_lines.hpp"

namespace weft::report::topology {
namespace {

const std::string file = R"(<system version="1">
<cpu numaid="0">
<pci busid="1" class="0x060400">
  <pci busid="2"><gpu dev="0" sm="90"><nvlink target="5" count="4" tclass="0x030200"/></gpu></pci>
  <pci busid="3"><nic><net name="mlx5_0" dev="0" speed="400000" gdr="0"/><net name="mlx5_0" dev="1" speed="400000"/></nic></pci>
</pci>
</cpu>
<cpu numaid="1">
  <pci busid="5"><gpu dev="1" sm="90"><nvlink target="2" count="4" tclass="0x030200"/><c2c bw="100" count="1"/></gpu></pci>
</cpu>
</system>)";
const std::string table =
    "GPU0 GPU1 mlx5_0 CPU Affinity NUMA Affinity\nGPU0 X NV4 PIX 0-3 0\nGPU1 NV4 X SYS 4-7 1\nmlx5_0 PIX SYS "
    "X\n";

TEST(HostViews, AreTheSameOfFilesAndTables) {
  const std::vector<HostView> views =
      host_views(read_system(file, "topo.xml"), test::facts_of(table).matrices);
  ASSERT_EQ(views.size(), 2U);
  for (const HostView& view : views) {
    ASSERT_EQ(view.gpus.size(), 2U) << view.name;
    ASSERT_EQ(view.nics.size(), 1U) << view.name;
    EXPECT_EQ(view.gpus[0].name, "GPU0");
    EXPECT_EQ(view.gpus[0].nvlinks, 4);
    EXPECT_EQ(view.gpus[0].other, "mlx5_0");
    EXPECT_TRUE(view.gpus[0].near());
    EXPECT_TRUE(view.gpus[1].far());
    EXPECT_EQ(view.gpus[1].distance, Distance::sys);
    EXPECT_EQ(view.gpus[1].numa, 1);
    EXPECT_EQ(view.nics[0].other, "GPU0");
    EXPECT_EQ(view.nics[0].distance, Distance::pix);
  }
  EXPECT_TRUE(views[0].from_file);
  EXPECT_TRUE(views[0].coherent);
  EXPECT_EQ(views[0].name, "topo.xml");
  EXPECT_EQ(views[1].name, "log");
}

TEST(HostViews, OfOneFileWithSeveralHostsNameThem) {
  const std::vector<HostView> views = host_views(
      read_system(R"(<system version="1"><cpu host_hash="0x1"/><cpu host_hash="0x2"/></system>)", "rack.xml"),
      {});
  ASSERT_EQ(views.size(), 2U);
  EXPECT_EQ(views[1].name, "rack.xml host 0x2");
}

TEST(HostViews, OfRowsThatAreMissingKnowNothing) {
  const std::vector<HostView> views =
      host_views({}, test::facts_of("GPU0 GPU1 mlx5_0 CPU Affinity\nGPU1 NV4 X SYS 4-7\n").matrices);
  ASSERT_EQ(views.size(), 1U);
  ASSERT_EQ(views[0].gpus.size(), 1U);
  EXPECT_EQ(views[0].gpus[0].name, "GPU1");
  EXPECT_EQ(views[0].nics.at(0).evidence.line, 1);
}

}  // namespace
}  // namespace weft::report::topology
