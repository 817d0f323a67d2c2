// Causes in how a host is built: distances, NVLink, PCIe and NUMA, from topologies, graphs and nvidia-smi topo -m.

#include <algorithm>
#include <map>

#include "weft-report/nccl/rules/rules.hpp"
#include "weft-report/topology/host_view.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using topology::Device;
using topology::Gpu;
using topology::GpuView;
using topology::Graph;
using topology::hides_switches;
using topology::Host;
using topology::HostView;
using topology::made_up_step;
using topology::NearestOther;
using topology::Nic;
using topology::PciStep;
using Findings = std::vector<Finding>;

std::vector<HostView> views_of(const Job& job) {
  return host_views(job.documents.hosts, job.tools.matrices);
}

void find_virtual_topology(const Job& job, Findings& findings) {
  for (const Host& host : job.documents.hosts) {
    if (const PciStep* step = made_up_step(host))
      return findings.push_back(finding_of("topology-vm", 0.75, {step->evidence}));
    if (!hides_switches(host)) continue;
    Finding finding =
        finding_of("topology-vm", 0.6, {host.gpus.front().evidence, host.nics.front().evidence});
    finding.verdict = text(host.file, " has NVSwitches and no PCIe switch: a virtual machine hides them");
    return findings.push_back(std::move(finding));
  }
  for (const Graph& graph : job.documents.graphs) {
    if (graph.pattern == 4 && graph.channels > 0 && graph.intra_gigabytes < 1)
      return findings.push_back(finding_of("topology-vm", 0.75, {graph.evidence}));
  }
}

/// Whether a NIC has no GPU near it while a GPU has no NIC: then one of them is in the wrong slot, or chosen wrongly.
void find_far_from_nics(const Job& job, Findings& findings) {
  int direct = 0;
  int through_host = 0;
  for (const Process& one : job.processes) {
    direct += one.connections.rdma_direct;
    through_host += one.connections.rdma;
  }
  if (job.on_one_node() || (direct > 0 && through_host == 0)) return;
  for (const HostView& host : views_of(job)) {
    const bool possible = std::ranges::any_of(host.nics, &NearestOther::direct);
    if (host.coherent || !possible || host.made_up) continue;
    const auto far = std::ranges::find_if(host.gpus, &GpuView::far);
    const auto near = std::ranges::find_if(host.gpus, &GpuView::near);
    if (far == host.gpus.end()) continue;
    const auto count = std::ranges::count_if(host.gpus, &GpuView::far);
    const auto spare = std::ranges::find_if(host.nics, &NearestOther::far);
    Finding finding = finding_of("gdr-distance", 0.6, {far->evidence});
    if (near == host.gpus.end()) {
      finding.verdict = text("no GPU of ", host.name, " is below one PCIe switch with a NIC; the nearest is ",
                             name(far->distance), " away");
    } else if (spare != host.nics.end()) {
      finding.confidence = 0.75;
      finding.evidence.push_back(spare->evidence);
      finding.verdict = text(far->name, " of ", host.name, " is far from every NIC (", name(far->distance),
                             "), and ", spare->name, " is near no GPU");
      finding.fix = "see in which slots NICs and GPUs are, and whether NCCL_IB_HCA leaves out the near NIC";
    } else {
      finding.severity = Severity::notice;
      finding.verdict =
          text(count, " of ", host.gpus.size(), " GPUs of ", host.name, " are far from every NIC (",
               name(far->distance), "): their data passes other GPUs or host memory");
    }
    return findings.push_back(std::move(finding));
  }
}

bool comparable(const HostView& a, const HostView& b) {
  return a.from_file == b.from_file && a.gpus.size() == b.gpus.size() && !a.gpus.empty() &&
         a.gpus.front().kind == b.gpus.front().kind;
}
const GpuView* most_linked(const HostView& host) {
  return &*std::ranges::max_element(host.gpus, {}, &GpuView::nvlinks);
}

void report_links(const GpuView& weak, const HostView& of, const GpuView& strong, double confidence,
                  Findings& findings) {
  Finding finding = finding_of("nvlink-missing", confidence, {weak.evidence, strong.evidence});
  finding.verdict = text(weak.name, " of ", of.name, " has ", weak.nvlinks, " NVLinks, ", strong.name,
                         " has ", strong.nvlinks);
  if (!of.from_file) finding.verdict += ", in all their pairs";
  findings.push_back(std::move(finding));
}
void find_missing_nvlinks(const Job& job, Findings& findings) {
  const std::vector<HostView> hosts = views_of(job);
  for (const HostView& host : hosts) {
    if (host.gpus.empty()) continue;
    const GpuView* strong = most_linked(host);
    const auto weak = std::ranges::find_if(host.gpus, [&](const GpuView& one) {
      return one.nvlinks < strong->nvlinks && one.kind == strong->kind;
    });
    if (weak == host.gpus.end()) continue;
    const auto full = std::ranges::count(host.gpus, strong->nvlinks, &GpuView::nvlinks);
    const bool most = 2 * full > std::ssize(host.gpus);  // else pairs of GPUs may have been joined on purpose
    return report_links(*weak, host, *strong, most ? 0.8 : 0.5, findings);
  }
  for (const HostView& host : hosts) {
    const auto other = std::ranges::find_if(hosts, [&](const HostView& one) {
      return comparable(host, one) && most_linked(one)->nvlinks > most_linked(host)->nvlinks;
    });
    if (other != hosts.end())
      return report_links(*most_linked(host), host, *most_linked(*other), 0.7, findings);
  }
}

std::string speed_of(const topology::PciLink& link) {
  return text(link.gigatransfers, " GT/s x", link.width);
}
/// Devices of one kind, in all hosts.
struct PciPeers {
  const Device* best = nullptr;
  const Device* worst = nullptr;
  const Host* worst_host = nullptr;
  void add(const Device& device, const Host& host) {
    if (device.slowest() == nullptr || made_up_step(device) != nullptr) return;
    const double speed = device.slowest()->link.gigabytes();
    if (best == nullptr || speed > best->slowest()->link.gigabytes()) best = &device;
    if (worst != nullptr && speed >= worst->slowest()->link.gigabytes()) return;
    worst = &device;
    worst_host = &host;
  }
};

void find_slow_pcie(const Job& job, Findings& findings) {
  std::map<std::string, PciPeers> kinds;
  for (const Host& host : job.documents.hosts) {
    for (const Gpu& gpu : host.gpus) kinds[gpu.model.empty() ? text("sm", gpu.sm) : gpu.model].add(gpu, host);
    for (const Nic& nic : host.nics) {
      if (!nic.model.empty()) kinds[nic.model].add(nic, host);
    }
  }
  for (const auto& [kind, peers] : kinds) {
    if (peers.best == nullptr) continue;
    const PciStep& best = *peers.best->slowest();
    const PciStep& worst = *peers.worst->slowest();
    if (worst.link.gigabytes() > 0.9 * best.link.gigabytes()) continue;
    Finding finding = finding_of("pcie-link-slow", 0.75, {worst.evidence, best.evidence});
    finding.verdict = text(peers.worst->bus(), " in ", host_name(*peers.worst_host, job.documents.hosts),
                           " has a PCIe link of ", speed_of(worst.link), "; ", peers.best->bus(),
                           " of the same kind has ", speed_of(best.link));
    findings.push_back(std::move(finding));
  }
}

/// A port whose PCIe link carries less than it does.
void find_narrow_nics(const Job& job, Findings& findings) {
  constexpr double megabits_of_gigabyte = 8000;
  for (const Host& host : job.documents.hosts) {
    for (const Nic& nic : host.nics) {
      const PciStep* step = nic.slowest();
      if (step == nullptr || made_up_step(nic) != nullptr) continue;
      const double carried = step->link.gigabytes() * megabits_of_gigabyte;
      if (carried >= 0.9 * static_cast<double>(nic.megabits)) continue;
      Finding finding = finding_of("pcie-link-slow", 0.7, {step->evidence, nic.evidence});
      finding.verdict =
          text(nic.name, " in ", host_name(host, job.documents.hosts), " has a port of ", nic.megabits / 1000,
               " Gbit/s; its PCIe link, ", speed_of(step->link), ", carries ", carried / 1000, " Gbit/s");
      return findings.push_back(std::move(finding));
    }
  }
}

void find_unknown_numa(const Job& job, Findings& findings) {
  for (const HostView& host : views_of(job)) {
    const auto unknown = std::ranges::find(host.gpus, -1, &GpuView::numa);
    const auto known = std::ranges::find_if(host.gpus, [](const GpuView& one) { return one.numa >= 0; });
    if (unknown == host.gpus.end() || known == host.gpus.end()) continue;
    Finding finding = finding_of("numa-unknown", 0.6, {unknown->evidence, known->evidence});
    finding.verdict =
        text(unknown->name, " of ", host.name, " has no NUMA node, ", known->name, " has ", known->numa);
    return findings.push_back(std::move(finding));
  }
}

constexpr JobRule topology_table[] = {
    {"topology-vm",
     "topology file: a PCIe link of 2.5 GT/s and one lane; NVSwitches without PCIe switches; graph file: a "
     "ring below 1 GB/s",
     find_virtual_topology},
    {"gdr-distance", "topology file or nvidia-smi topo -m: a GPU whose nearest NIC is PHB, NODE or SYS away",
     find_far_from_nics},
    {"nvlink-missing",
     "topology file or nvidia-smi topo -m: a GPU with fewer NVLinks than another of its kind",
     find_missing_nvlinks},
    {"pcie-link-slow", "topology file: a device with a slower PCIe link than another of its kind",
     find_slow_pcie},
    {"pcie-link-slow", "topology file: a port that is faster than its PCIe link", find_narrow_nics},
    {"numa-unknown", "topology file or nvidia-smi topo -m: a GPU without NUMA node beside one that has it",
     find_unknown_numa},
};

}  // namespace

std::span<const JobRule> topology_rules() {
  return topology_table;
}

}  // namespace weft::report::nccl
