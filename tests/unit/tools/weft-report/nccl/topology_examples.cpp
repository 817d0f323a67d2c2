// Hosts built by hand: two CPUs, switches, GPUs and NICs, and one thing about them that is wrong.

#include <functional>

#include "unit/tools/weft-report/nccl/rule_examples.hpp"

namespace weft::report::nccl::test {
namespace built {  // names that other examples have, too
namespace {

struct DeviceText {
  int numa = 0;
  int bridge = 1;  ///< 0: directly below the CPU
  std::string speed = "32.0 GT/s PCIe";
  std::string width = "16";
  int nvlinks = 18;              ///< of a GPU
  int megabits = 400000;         ///< of a NIC
  std::string model = "0x2330";  ///< the vendor's number
  std::string gdr = "1";         ///< of a NIC
};

/// Four GPUs and four NICs, each pair below a switch of its own.
struct HostText {
  HostText() {
    for (int i = 0; i < 4; ++i) {
      gpus.push_back({.numa = i / 2, .bridge = i + 1});
      nics.push_back({.numa = i / 2, .bridge = i + 1, .model = "0x1021"});
    }
  }
  std::vector<DeviceText> gpus{};
  std::vector<DeviceText> nics{};
  std::string c2c{};
  int domain = 0;
};

std::string pci(const std::string& bus, const std::string& type, const DeviceText& device,
                const std::string& inside) {
  return "<pci busid=\"" + bus + "\" class=\"" + type + "\" vendor=\"0x10de\" device=\"" + device.model +
         "\" link_speed=\"" + device.speed + "\" link_width=\"" + device.width + "\">\n" + inside +
         "</pci>\n";
}
std::string print(const HostText& host) {
  const auto bus = [&](int kind, std::size_t i) {
    return "000" + std::to_string(host.domain) + ":" + std::to_string(kind) + std::to_string(i) + ":00.0";
  };
  std::string all = "<system version=\"1\">\n";
  for (int numa = -1; numa < 2; ++numa) {
    std::string inside;
    for (int bridge = 0; bridge < 9; ++bridge) {
      std::string below;
      for (std::size_t i = 0; i < host.gpus.size(); ++i) {
        const DeviceText& gpu = host.gpus[i];
        if (gpu.numa != numa || gpu.bridge != bridge) continue;
        std::string links = host.c2c;
        if (gpu.nvlinks > 0)
          links += "<nvlink target=\"0000:04:00.0\" count=\"" + std::to_string(gpu.nvlinks) +
                   "\" tclass=\"0x068000\"/>\n";
        below += pci(
            bus(1, i), "0x030200", gpu,
            "<gpu dev=\"" + std::to_string(i) + "\" sm=\"90\" rank=\"0\" gdr=\"1\">\n" + links + "</gpu>\n");
      }
      for (std::size_t i = 0; i < host.nics.size(); ++i) {
        const DeviceText& nic = host.nics[i];
        if (nic.numa != numa || nic.bridge != bridge) continue;
        const std::string number = std::to_string(i);
        below += pci(bus(2, i), "0x020700", nic,
                     "<nic>\n<net name=\"mlx5_" + number + "\" dev=\"" + number + "\" speed=\"" +
                         std::to_string(nic.megabits) + "\" port=\"1\" gdr=\"" + nic.gdr + "\"/>\n</nic>\n");
      }
      if (bridge > 0 && !below.empty())
        below = pci(bus(3, static_cast<std::size_t>(bridge)), "0x060400", {.model = "0xc030"}, below);
      inside += below;
    }
    if (!inside.empty())
      all += "<cpu host_hash=\"0x1\" numaid=\"" + std::to_string(numa) + "\" arch=\"x86_64\">\n" + inside +
             "</cpu>\n";
  }
  return all + "</system>\n";
}
std::string host(const std::function<void(HostText&)>& change = [](HostText&) {}) {
  HostText one;
  change(one);
  return print(one);
}
std::string file(const std::string& name, const std::string& content) {
  return "=== " + name + "\n" + content;
}
/// The host as it should be, and a changed one.
std::string beside(const std::function<void(HostText&)>& change) {
  return file("node1.xml", host()) + file("node2.xml", host(change));
}

std::string says(const std::string& message) {
  return "node1:700:701 [0] NCCL INFO " + message + "\n";
}
std::string start_at(const std::string& bus) {
  return says("ncclCommInitRank comm 0x1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId " + bus +
              " commId 0x5 - Init START");
}
std::string start_of(int ranks) {
  return says("ncclCommInitRank comm 0x1 rank 0 nranks " + std::to_string(ranks) +
              " cudaDev 0 nvmlDev 0 busId 10000 commId 0x5 - Init START");
}
std::string graph(const std::string& attributes, const std::string& gpu = "0", const std::string& net = "0") {
  return "<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" crossnic=\"0\" " + attributes +
         " samechannels=\"1\">\n<channel>\n<net dev=\"" + net + "\"/>\n<gpu dev=\"" + gpu +
         "\" rank=\"0\"/>\n<net dev=\"" + net + "\"/>\n</channel>\n</graph>\n</graphs>\n";
}
const std::string two_channels =
    "nchannels=\"2\" speedintra=\"20\" speedinter=\"20\" typeintra=\"NVL\" typeinter=\"PIX\"";
const std::string chosen =
    says("Pattern 4, crossNic 0, nChannels 2, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1");
const std::string slow_channel =
    "nchannels=\"1\" speedintra=\"0.24\" speedinter=\"0.24\" typeintra=\"SYS\" typeinter=\"PHB\"";

std::string table(const std::string& gpu1, const std::string& nic = "PIX", const std::string& numa = "0") {
  return "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
         "GPU0\t X \tNV4\tNV4\tPIX\t0-31\t0\n"
         "GPU1\t" +
         gpu1 + "\t X \t" + gpu1 + "\tPIX\t0-31\t" + numa +
         "\n"
         "GPU2\tNV4\tNV4\t X \t" +
         nic +
         "\t0-31\t0\n"
         "NIC0\tPIX\tPIX\t" +
         nic + "\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n";
}
std::string port(const std::string& hca, const std::string& state, const std::string& speed = "100.0",
                 const std::string& layer = "Ethernet") {
  return "hca_id:\t" + hca + "\n\tvendor_part_id:\t\t\t4129\n\t\tport:\t1\n\t\t\tstate:\t\t\t" + state +
         "\n\t\t\tlink_layer:\t\t" + layer + "\n\t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t" +
         speed + " Gbps (128)\n";
}
std::string link(const std::string& what, const std::string& now) {
  return "18:00.0 " + what +
         ": Some card (rev a1)\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not "
         "supported\n\t\tLnkSta:\t" +
         now + "\n";
}
std::string with_gid(const std::string& index, const std::string& type) {
  return port("mlx5_0", "PORT_ACTIVE (4)") + "\t\t\tGID[  " + index + "]:\t\t::ffff:10.1.2.3" +
         (type.empty() ? "" : ", " + type) + "\n";
}
std::string locked(const std::string& kib) {
  return "max locked memory           (kbytes, -l) " + kib + "\n";
}

const std::vector<RuleExample> distances{
    {"gdr-distance", host([](HostText& one) {
       one.gpus[3].numa = 0;
       one.gpus[3].bridge = 5;
     }),
     host()},
    {"gdr-distance", host([](HostText& one) {
       for (DeviceText& nic : one.nics) nic.bridge += 4;
     }),
     says("Channel 00/0 : 1[1] -> 3[2] via P2P/CUMEM") + host()},
    {"gdr-distance", host([](HostText& one) { one.nics.resize(2); }), host([](HostText& one) {
       one.nics.resize(2);
       one.c2c = "<c2c bw=\"44712\" count=\"10\"/>\n";
     })},
    {"gdr-distance", host([](HostText& one) { one.nics.resize(1); }), host([](HostText& one) {
       one.nics.resize(1);
       one.nics[0].gdr = "0";
     })},
    {"gdr-distance", table("NV4", "SYS"), table("NV4", "PXB")},
    {"topology-vm", host([](HostText& one) {
       one.gpus[1].speed = "2.5 GT/s PCIe";
       one.gpus[1].width = "1";
     }),
     host([](HostText& one) {
       one.gpus[1].speed = "5.0 GT/s PCIe";
       one.gpus[1].width = "1";
     })},
    {"topology-vm", host([](HostText& one) {
       for (DeviceText& gpu : one.gpus) gpu.bridge = 0;
       for (DeviceText& nic : one.nics) nic.bridge = 0;
     }),
     host([](HostText& one) {
       for (DeviceText& gpu : one.gpus) gpu.bridge = gpu.nvlinks = 0;
       for (DeviceText& nic : one.nics) nic.bridge = 0;
     })},
    {"topology-vm", host([](HostText& one) {
       one.nics[1].speed = "2.5 GT/s PCIe";
       one.nics[1].width = "1";
     }),
     host([](HostText& one) { one.nics[1].speed = "2.5 GT/s PCIe"; })},
    {"topology-vm", graph(slow_channel), graph(two_channels)},
    {"numa-unknown", host([](HostText& one) { one.gpus[0].numa = one.nics[0].numa = -1; }),
     host([](HostText& one) {
       for (DeviceText& gpu : one.gpus) gpu.numa = -1;
       for (DeviceText& nic : one.nics) nic.numa = -1;
     })},
    {"numa-unknown", table("NV4", "PIX", "N/A"), table("NV4", "PIX", "0")},
};

const std::vector<RuleExample> links{
    {"nvlink-missing", host([](HostText& one) { one.gpus[2].nvlinks = 17; }), host()},
    {"nvlink-missing", beside([](HostText& one) {
       for (DeviceText& gpu : one.gpus) gpu.nvlinks = 12;
     }),
     beside([](HostText& one) {
       for (DeviceText& gpu : one.gpus) {
         gpu.nvlinks = 12;
         gpu.model = "0x20b0";
       }
     })},
    {"nvlink-missing", table("PIX"), table("NV4")},
    {"nvlink-missing", host([](HostText& one) { one.gpus[2].nvlinks = 0; }), host([](HostText& one) {
       one.gpus[2].nvlinks = 0;
       one.gpus[2].model = "0x26b9";
     })},
    {"pcie-link-slow", host([](HostText& one) { one.gpus[2].width = "8"; }), host([](HostText& one) {
       one.gpus[2].width = "8";
       one.gpus[2].model = "0x20b0";
     })},
    {"pcie-link-slow", host([](HostText& one) {
       for (DeviceText& nic : one.nics) nic.speed = "16.0 GT/s PCIe";
     }),
     host([](HostText& one) {
       for (DeviceText& nic : one.nics) {
         nic.speed = "16.0 GT/s PCIe";
         nic.megabits = 200000;
       }
     })},
    {"pcie-link-slow", link("3D controller", "Speed 32GT/s, Width x8 (downgraded)"),
     link("3D controller", "Speed 2.5GT/s (downgraded), Width x16")},
    {"pcie-link-slow", link("Infiniband controller", "Speed 16GT/s (downgraded), Width x16"),
     link("Infiniband controller", "Speed 32GT/s, Width x16")},
    {"nics-differ", beside([](HostText& one) { one.nics.pop_back(); }), beside([](HostText& one) {
       one.nics.pop_back();
       one.gpus.pop_back();
     })},
    {"nic-slower", beside([](HostText& one) { one.nics[1].megabits = 200000; }),
     beside([](HostText& one) { one.nics[1].megabits = 400000; })},
    {"nic-slower", host([](HostText& one) { one.nics[1].megabits = 200000; }), host([](HostText& one) {
       one.nics[1].megabits = 200000;
       one.nics[1].model = "0x1017";
     })},
    {"nic-slower",
     file("node1", port("mlx5_0", "PORT_ACTIVE (4)")) +
         file("node2", port("mlx5_0", "PORT_ACTIVE (4)", "50.0")),
     file("node1", port("mlx5_0", "PORT_ACTIVE (4)")) +
         file("node2", port("mlx5_0", "PORT_DOWN (1)", "2.5"))},
    {"nic-slower",
     file("node1", port("mlx5_0", "PORT_ACTIVE (4)")) +
         file("node2", port("mlx5_1", "PORT_ACTIVE (4)", "50.0")),
     file("node1", port("mlx5_0", "PORT_DOWN (1)")) +
         file("node2", port("mlx5_1", "PORT_ACTIVE (4)", "50.0"))},
    {"port-down",
     file("node1", port("mlx5_0", "PORT_ACTIVE (4)")) +
         file("node2", port("mlx5_0", "PORT_DOWN (1)") + port("mlx5_1", "PORT_ACTIVE (4)")),
     file("node1", port("mlx5_0", "PORT_ACTIVE (4)")) +
         file("node2", port("mlx5_0", "PORT_ACTIVE (4)") + port("mlx5_1", "PORT_DOWN (1)"))},
    {"port-down", port("mlx5_0", "PORT_DOWN (1)"), port("mlx5_0", "PORT_ACTIVE (4)")},
    {"port-down", port("mlx5_0", "PORT_ACTIVE (4)") + port("mlx5_1", "PORT_INIT (2)", "100.0", "InfiniBand"),
     port("mlx5_0", "PORT_ACTIVE (4)") + port("mlx5_1", "PORT_DOWN (1)", "100.0", "InfiniBand")},
};

const std::vector<RuleExample> files{
    {"topology-file-bad", file("topo.xml", host()) + file("log", start_at("5a000")),
     file("topo.xml", host()) + file("log", start_at("11000"))},
    {"graph-file-leftover", file("topo.xml", host()) + file("graph.xml", graph(two_channels, "0x7")),
     file("topo.xml", host()) + file("graph.xml", graph(two_channels, "0x100000000000003"))},
    {"graph-file-leftover", file("topo.xml", host()) + file("graph.xml", graph(two_channels, "0x1", "9")),
     file("topo.xml", host()) + file("graph.xml", graph(two_channels, "0x1", "3"))},
    {"graph-file-leftover",
     file("graph.xml", graph(two_channels)) +
         file("log", says("Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, "
                          "sameChannels 1")),
     file("graph.xml", graph(two_channels)) +
         file("log", says("Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, "
                          "sameChannels 1") +
                         says("Pattern 4, crossNic 0, nChannels 2, bw 20.000000/20.000000, type NVL/PIX, "
                              "sameChannels 1"))},
    {"gdr-disabled", host([](HostText& one) {
       for (DeviceText& nic : one.nics) nic.gdr = "0";
     }),
     host([](HostText& one) { one.nics[0].gdr = "0"; })},
    {"roce-gid", "NCCL_IB_GID_INDEX=5\n" + with_gid("3", "RoCE v2"),
     "NCCL_IB_GID_INDEX=3\n" + with_gid("3", "RoCE v2")},
    {"roce-gid", "NCCL_IB_GID_INDEX=3\n" + with_gid("3", "RoCE v1"),
     "NCCL_IB_GID_INDEX=3\n" + with_gid("3", "")},
    {"graph-file-leftover",
     file("graph.xml",
          graph("nchannels=\"3\" speedintra=\"20\" speedinter=\"20\" typeintra=\"NVL\" typeinter=\"PIX\"")) +
         file("log", chosen),
     file("graph.xml",
          graph("nchannels=\"0\" speedintra=\"0\" speedinter=\"0\" typeintra=\"LOC\" typeinter=\"LOC\"")) +
         file("log", chosen)},
    {"memlock-limit", locked("64"), locked("unlimited")},
    {"memlock-limit", locked("524288"),
     says("Channel 00/0 : 1[1] -> 8[0] [receive] via NET/IB/0/GDRDMA") + locked("524288")},
    {"open-files-limit", start_of(256) + "open files                          (-n) 1024\n",
     start_of(64) + "open files                          (-n) 1024\n"},
};

}  // namespace
}  // namespace built

const std::vector<RuleExample>& topology_examples() {
  static const std::vector<RuleExample> all = [] {
    std::vector<RuleExample> together = built::distances;
    together.insert(together.end(), built::links.begin(), built::links.end());
    together.insert(together.end(), built::files.begin(), built::files.end());
    return together;
  }();
  return all;
}

}  // namespace weft::report::nccl::test
