// Topologies and graphs are printed as NCCL prints them, with random values, and read back.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "support/draw.hpp"
#include "weft-report/topology/graph.hpp"
#include "weft-report/topology/topology.hpp"

namespace weft::report::topology {
namespace {

using weft::test::Draw;

/// As printf does it.
template <class... Values>
std::string print(const char* form, Values... values) {
  char words[1024];
  std::snprintf(words, sizeof words, form, values...);
  return words;
}

std::string hex_bus(Draw& draw) {
  return print("%04x:%02x:%02x.%d", draw.below(2), draw.below(256), draw.below(32), draw.below(8));
}

/// A host, and the text that says the same.
class RandomSystem {
 public:
  explicit RandomSystem(std::uint64_t seed) : draw_(seed) {
    text = "<system version=\"1\">\n";
    const int count = 1 + draw_.below(2);
    for (int i = 0; i < count; ++i) {
      hosts.emplace_back();
      hosts.back().hash = print("0x%x", i + 1 + 100 * draw_.below(1000));
      const int cpus = 1 + draw_.below(3);
      for (int numa = 0; numa < cpus; ++numa) add_cpu(numa);
    }
    text += "</system>\n";
  }

  std::vector<Host> hosts{};
  std::string text{};

 private:
  void add_cpu(int numa) {
    Cpu cpu{.numa = numa,
            .arch = draw_.once_in(2) ? "x86_64" : "arm64",
            .affinity = print("%08x", draw_.below(1 << 30))};
    cpu.vendor = cpu.arch == "arm64"
                     ? ""
                     : draw_.one_of<const char*>({"GenuineIntel", "AuthenticAMD", "  Shanghai  "});
    text += print("  <cpu host_hash=\"%s\" numaid=\"%d\" affinity=\"%s\" arch=\"%s\"",
                  hosts.back().hash.c_str(), numa, cpu.affinity.c_str(), cpu.arch.c_str());
    if (!cpu.vendor.empty())
      text += print(" vendor=\"%s\" familyid=\"%d\" modelid=\"%d\"", cpu.vendor.c_str(), 6, draw_.below(256));
    text += ">\n";
    Device top;
    top.numa = numa;
    for (int i = draw_.below(4); i > 0; --i) add_pci(top, 4);
    text += "  </cpu>\n";
    hosts.back().cpus.push_back(cpu);
  }
  void add_pci(const Device& above, int indent) {
    Device device = above;
    const double speed = draw_.one_of<double>({2.5, 5, 8, 16, 32, 64});
    PciStep step{.bus = hex_bus(draw_), .link = {.gigatransfers = speed, .width = 1 << draw_.below(5)}};
    device.path.insert(device.path.begin(), step);
    device.model = print("0x%04x:0x%04x", draw_.below(65536), draw_.below(65536));
    const int kind = indent > 10 ? 1 + draw_.below(2) : draw_.below(3);
    const char* classes[] = {"0x060400", "0x030200", "0x020700"};
    hosts.back().switches += kind == 0 ? 1 : 0;
    const std::string spaces(static_cast<std::size_t>(indent), ' ');
    text += spaces + print(
                         "<pci busid=\"%s\" class=\"%s\" vendor=\"%s\" device=\"%s\" link_speed=\"%.1f GT/s "
                         "PCIe\" link_width=\"%d\">\n",
                         step.bus.c_str(), classes[kind], device.model.substr(0, 6).c_str(),
                         device.model.substr(7).c_str(), speed, step.link.width);
    if (kind == 0) {
      for (int i = 1 + draw_.below(3); i > 0; --i) add_pci(device, indent + 2);
    } else if (kind == 1) {
      add_gpu(device, spaces + "  ");
    } else {
      add_nic(device, spaces + "  ");
    }
    text += spaces + "</pci>\n";
  }
  void add_gpu(const Device& device, const std::string& spaces) {
    Gpu gpu{device};
    gpu.dev = draw_.below(16);
    gpu.sm = draw_.one_of<int>({70, 80, 90, 100});
    gpu.rank = draw_.below(4096) - 1;
    gpu.gdr = draw_.below(2);
    text += spaces +
            print("<gpu dev=\"%d\" sm=\"%d\" rank=\"%d\" gdr=\"%d\">\n", gpu.dev, gpu.sm, gpu.rank, gpu.gdr);
    for (int i = draw_.below(4); i > 0; --i) {
      const bool to_switch = draw_.once_in(2);
      gpu.links.push_back(
          {hex_bus(draw_), to_switch ? NvTarget::nvswitch : NvTarget::gpu, 1 + draw_.below(18)});
      text += spaces + print("  <nvlink target=\"%s\" count=\"%d\" tclass=\"%s\"/>\n",
                             gpu.links.back().target.c_str(), gpu.links.back().count,
                             to_switch ? "0x068000" : "0x030200");
    }
    text += spaces + "</gpu>\n";
    hosts.back().gpus.push_back(gpu);
  }
  void add_nic(const Device& device, const std::string& spaces) {
    text += spaces + "<nic>\n";
    for (int port = 1; port <= 1 + draw_.below(2); ++port) {
      Nic nic{device};
      nic.name = print("mlx5_%d", draw_.below(16));
      nic.dev = draw_.below(16);
      nic.port = port;
      nic.megabits = draw_.one_of<int>({1000, 10000, 100000, 200000, 400000});
      nic.guid = print("0x%x", draw_.below(1 << 30));
      nic.gdr = draw_.below(2);
      text += spaces + print(
                           "  <net name=\"%s\" dev=\"%d\" latency=\"%f\" speed=\"%d\" port=\"%d\" "
                           "guid=\"%s\" maxconn=\"131072\" gdr=\"%d\"/>\n",
                           nic.name.c_str(), nic.dev, 0.0, static_cast<int>(nic.megabits), port,
                           nic.guid.c_str(), nic.gdr);
      hosts.back().nics.push_back(nic);
    }
    text += spaces + "</nic>\n";
  }

  Draw draw_;
};

void expect_same(const Device& read, const Device& meant) {
  ASSERT_EQ(read.path.size(), meant.path.size());
  for (std::size_t i = 0; i < read.path.size(); ++i) {
    EXPECT_EQ(read.path[i].bus, meant.path[i].bus);
    EXPECT_EQ(read.path[i].link.gigatransfers, meant.path[i].link.gigatransfers);
    EXPECT_EQ(read.path[i].link.width, meant.path[i].link.width);
  }
  EXPECT_EQ(read.numa, meant.numa);
  EXPECT_EQ(read.model, meant.model);
  EXPECT_GT(read.evidence.line, 1);
}

void expect_same(const Host& read, const Host& meant) {
  EXPECT_EQ(read.hash, meant.hash);
  EXPECT_EQ(read.switches, meant.switches);
  ASSERT_EQ(read.cpus.size(), meant.cpus.size());
  for (std::size_t i = 0; i < read.cpus.size(); ++i) {
    EXPECT_EQ(read.cpus[i].numa, meant.cpus[i].numa);
    EXPECT_EQ(read.cpus[i].arch, meant.cpus[i].arch);
    EXPECT_EQ(read.cpus[i].vendor, meant.cpus[i].vendor);
    EXPECT_EQ(read.cpus[i].affinity, meant.cpus[i].affinity);
  }
  ASSERT_EQ(read.gpus.size(), meant.gpus.size());
  for (std::size_t i = 0; i < read.gpus.size(); ++i) {
    const Gpu& a = read.gpus[i];
    const Gpu& b = meant.gpus[i];
    expect_same(static_cast<const Device&>(a), b);
    EXPECT_EQ(std::tuple(a.dev, a.sm, a.rank, a.gdr, a.nvlinks()),
              std::tuple(b.dev, b.sm, b.rank, b.gdr, b.nvlinks()));
    ASSERT_EQ(a.links.size(), b.links.size());
    for (std::size_t j = 0; j < a.links.size(); ++j) {
      EXPECT_EQ(a.links[j].target, b.links[j].target);
      EXPECT_EQ(a.links[j].kind, b.links[j].kind);
    }
  }
  ASSERT_EQ(read.nics.size(), meant.nics.size());
  for (std::size_t i = 0; i < read.nics.size(); ++i) {
    const Nic& a = read.nics[i];
    const Nic& b = meant.nics[i];
    expect_same(static_cast<const Device&>(a), b);
    EXPECT_EQ(std::tuple(a.name, a.dev, a.port, a.megabits, a.guid, a.gdr),
              std::tuple(b.name, b.dev, b.port, b.megabits, b.guid, b.gdr));
  }
}

TEST(TopologyFile, PrintedAtRandomIsReadBack) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    const RandomSystem meant(seed);
    const std::vector<Host> read = read_system(meant.text, "topo.xml");
    ASSERT_EQ(read.size(), meant.hosts.size());
    for (std::size_t i = 0; i < read.size(); ++i) expect_same(read[i], meant.hosts[i]);
    if (HasFailure()) FAIL() << meant.text;
  }
}

/// Before 2.21 NCCL printed numbers of devices as decimals.
std::string print(const Graph& graph, bool hexadecimal, bool with_latency) {
  std::string text = print(
      "  <graph id=\"%d\" pattern=\"%d\" crossnic=\"%d\" nchannels=\"%d\" speedintra=\"%g\" "
      "speedinter=\"%g\"",
      graph.id, graph.pattern, graph.cross_nic ? 1 : 0, graph.channels, graph.intra_gigabytes,
      graph.inter_gigabytes);
  if (with_latency) text += print(" latencyinter=\"%g\"", 0.0);
  text += print(" typeintra=\"%s\" typeinter=\"%s\" samechannels=\"%d\"", graph.intra_type.c_str(),
                graph.inter_type.c_str(), 1);
  if (graph.ways.empty()) return text + "/>\n";
  text += ">\n";
  const char* dev = hexadecimal ? " dev=\"%#lx\"" : " dev=\"%ld\"";
  for (const Channel& way : graph.ways) {
    text += "    <channel>\n";
    if (!way.nets.empty()) text += "      <net" + print(dev, static_cast<long>(way.nets[0])) + "/>\n";
    for (const GraphGpu& gpu : way.gpus)
      text += "      <gpu" + print(dev, static_cast<long>(gpu.dev)) +
              print(" rank=\"%d\"/>\n", static_cast<int>(gpu.rank));
    if (!way.nets.empty()) text += "      <net" + print(dev, static_cast<long>(way.nets[1])) + "/>\n";
    text += "    </channel>\n";
  }
  return text + "  </graph>\n";
}

Graph random_graph(Draw& draw) {
  Graph graph{.id = draw.below(5),
              .pattern = 1 + draw.below(6),
              .cross_nic = draw.once_in(2),
              .channels = draw.below(32),
              .intra_gigabytes = draw.below(400) / 8.0,
              .inter_gigabytes = draw.below(400) / 8.0,
              .intra_type = draw.one_of<const char*>({"NVL", "PIX", "SYS"}),
              .inter_type = draw.one_of<const char*>({"PIX", "PXN", "PHB"})};
  const bool network = draw.once_in(2);
  for (int i = 0; i < graph.channels; ++i) {
    Channel way;
    if (network) way.nets = {draw.below(20), draw.below(20)};
    for (int gpu = 1 + draw.below(8); gpu > 0; --gpu) way.gpus.push_back({draw.below(20), draw.below(5000)});
    graph.ways.push_back(way);
  }
  return graph;
}

TEST(GraphFile, PrintedAtRandomIsReadBack) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    std::vector<Graph> meant;
    std::string text = "<graphs version=\"1\">\n";
    const bool hexadecimal = draw.once_in(2);
    for (int i = 1 + draw.below(3); i > 0; --i) {
      meant.push_back(random_graph(draw));
      text += print(meant.back(), hexadecimal, hexadecimal);
    }
    const std::vector<Graph> read = read_graphs(text + "</graphs>\n", "graph.xml");
    ASSERT_EQ(read.size(), meant.size());
    for (std::size_t i = 0; i < read.size(); ++i) {
      const Graph& a = read[i];
      const Graph& b = meant[i];
      EXPECT_EQ(std::tuple(a.id, a.pattern, a.cross_nic, a.channels, a.intra_gigabytes, a.inter_gigabytes,
                           a.intra_type, a.inter_type),
                std::tuple(b.id, b.pattern, b.cross_nic, b.channels, b.intra_gigabytes, b.inter_gigabytes,
                           b.intra_type, b.inter_type));
      EXPECT_EQ(a.ways, b.ways) << text;
    }
  }
}

TEST(GraphLine, PrintedAtRandomIsReadBack) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Draw draw(seed);
    const Graph meant = random_graph(draw);
    const char* word = draw.once_in(2) ? "bw" : "speed";
    const std::string line =
        print("Pattern %d, crossNic %d, nChannels %d, %s %f/%f, type %s/%s, sameChannels %d", meant.pattern,
              meant.cross_nic ? 1 : 0, meant.channels, word, meant.intra_gigabytes, meant.inter_gigabytes,
              meant.intra_type.c_str(), meant.inter_type.c_str(), 1);
    const std::optional<Graph> read = graph_of_line(line);
    ASSERT_TRUE(read) << line;
    EXPECT_TRUE(read->alike(meant)) << line;
    EXPECT_EQ(read->cross_nic, meant.cross_nic);
    for (std::size_t length = 0; length + 16 < line.size(); ++length) {
      const std::optional<Graph> cut = graph_of_line(std::string_view(line).substr(0, length));
      EXPECT_TRUE(!cut || cut->alike(meant)) << line.substr(0, length);
    }
  }
  EXPECT_FALSE(graph_of_line("Pattern 4, crossNic 0, nChannels 1, nvlink 1, type NVL/PIX, sameChannels 1"));
  EXPECT_FALSE(graph_of_line("The Pattern 4, nChannels 2, bw 1.0/1.0, type NVL/PIX, sameChannels 1"));
}

}  // namespace
}  // namespace weft::report::topology
