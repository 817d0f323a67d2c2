// NCCL_TOPO_DUMP_FILE and NCCL_TOPO_FILE (NCCL 2.5 to 2.30, src/graph/xml.cc and topo.cc): <system> of <cpu>, <pci>, <gpu>, <nvlink>, <c2c>,
// <nic> and <net>. Attributes that came later (host_hash, mlopart, rail, plane) may be missing; unknown ones are left out.

#include <algorithm>

#include "weft-report/topology/topology.hpp"
#include "weft-report/topology/xml.hpp"
#include "weft/core/text.hpp"

namespace weft::report::topology {
namespace {

/// One element after the other, from the top down.
class SystemReader {
 public:
  SystemReader(std::string_view content, const std::string& file) : xml_(content, file), file_(file) {}

  std::vector<Host> read() {
    const pugi::xml_node system = xml_.root("system");
    for (const pugi::xml_node cpu : system.children("cpu")) take_cpu(cpu);
    if (hosts_.empty()) xml_.refuse(system, "<system> has no <cpu>");
    return std::move(hosts_);
  }

 private:
  void take_cpu(const pugi::xml_node& node) {
    host_of(node);
    const Cpu cpu{.numa = small(node, "numaid", -1),
                  .arch = value(node, "arch"),
                  .vendor = value(node, "vendor"),
                  .affinity = value(node, "affinity"),
                  .evidence = xml_.evidence(node)};
    Device top;
    top.numa = cpu.numa;
    host_->cpus.push_back(cpu);
    take_below(node, top, 0);
  }
  /// Racks with NVLink between hosts have all their CPUs in one system.
  void host_of(const pugi::xml_node& cpu) {
    const std::string hash = value(cpu, "host_hash");
    const auto known = std::ranges::find(hosts_, hash, &Host::hash);
    if (known == hosts_.end() && hosts_.size() == most) xml_.refuse(cpu, text("more than ", most, " hosts"));
    host_ = known != hosts_.end()
                ? &*known
                : &hosts_.emplace_back(Host{.file = file_, .hash = hash, .evidence = xml_.evidence(cpu)});
  }

  void take_below(const pugi::xml_node& parent, const Device& above, int depth) {
    if (depth > deepest) xml_.refuse(parent, text("<pci> in more than ", deepest, " others"));
    for (const pugi::xml_node node : parent.children()) {
      const std::string_view name = node.name();
      if (name == "pci") take_pci(node, above, depth);
      if (name == "gpu") take_gpu(node, above);
      if (name == "nic") {
        for (const pugi::xml_node net : node.children("net")) take_net(net, above);
      }
    }
  }
  void take_pci(const pugi::xml_node& node, const Device& above, int depth) {
    Device device = above;
    device.path.insert(device.path.begin(), {.bus = value(node, "busid"),
                                             .link = {.gigatransfers = real(node, "link_speed"),
                                                      .width = small(node, "link_width", 0)},
                                             .evidence = xml_.evidence(node)});
    device.model = value(node, "vendor") + (value(node, "device").empty() ? "" : ":" + value(node, "device"));
    if (value(node, "class").starts_with("0x0604")) ++host_->switches;
    take_below(node, device, depth + 1);
  }
  void take_gpu(const pugi::xml_node& node, const Device& device) {
    Gpu gpu{device};
    gpu.evidence = xml_.evidence(node);
    gpu.dev = small(node, "dev", -1);
    gpu.rank = small(node, "rank", -1);
    gpu.sm = small(node, "sm", 0);
    gpu.gdr = small(node, "gdr", -1);
    for (const pugi::xml_node link : node.children("nvlink"))
      gpu.links.push_back({value(link, "target"), target_of(link), small(link, "count", 0)});
    // bw is of one link, in Mbyte/s (NVML's NVML_FI_DEV_C2C_LINK_GET_MAX_BW).
    for (const pugi::xml_node link : node.children("c2c"))
      gpu.c2c_gigabytes += small(link, "bw", 0) * small(link, "count", 0) / 1000.0;
    if (host_->gpus.size() == most) xml_.refuse(node, text("more than ", most, " GPUs in a host"));
    host_->gpus.push_back(std::move(gpu));
  }
  void take_net(const pugi::xml_node& node, const Device& device) {
    Nic nic{device};
    nic.evidence = xml_.evidence(node);
    nic.name = value(node, "name");
    nic.guid = value(node, "guid");
    nic.dev = small(node, "dev", -1);
    nic.port = small(node, "port", -1);
    nic.megabits = std::max<std::int64_t>(integer(node, "speed", 0), 0);
    nic.gdr = small(node, "gdr", -1);
    if (host_->nics.size() == most) xml_.refuse(node, text("more than ", most, " ports in a host"));
    host_->nics.push_back(std::move(nic));
  }
  static NvTarget target_of(const pugi::xml_node& link) {
    const std::string type = value(link, "tclass");
    if (type.starts_with("0x0680")) return NvTarget::nvswitch;
    return type.starts_with("0x03") ? NvTarget::gpu : NvTarget::other;
  }

  /// Of GPUs or ports of a host, and of hosts. Each GPU is compared with each port.
  static constexpr std::size_t most = 512;

  Xml xml_;
  const std::string& file_;
  std::vector<Host> hosts_{};
  Host* host_ = nullptr;
};

}  // namespace

std::vector<Host> read_system(std::string_view xml, const std::string& file) {
  return SystemReader(xml, file).read();
}

}  // namespace weft::report::topology
