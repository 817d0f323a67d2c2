// Causes in ports, limits and PCIe links of single hosts, which topologies, ibv_devinfo, ulimit and lspci state.

#include <algorithm>
#include <map>

#include "weft-report/nccl/rules/rules.hpp"
#include "weft-report/topology/host_view.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using topology::Port;
using Findings = std::vector<Finding>;

std::string place_of(const std::string& host, const Evidence& evidence) {
  return host.empty() ? evidence.file : host;
}
std::string name_of(const Port& port) {
  return text(port.hca, " port ", port.number, " on ", place_of(port.host, port.evidence));
}
bool is_active(const Port& port) {
  return port.state.value == "PORT_ACTIVE";
}
/// The same port of other hosts.
bool same_name(const Port& a, const Port& b) {
  return a.hca == b.hca && a.number == b.number;
}

void find_nics_of_topologies(const Job& job, Findings& findings) {
  const std::vector<topology::HostView> hosts = topology::host_views(job.documents.hosts, job.tools.matrices);
  for (const topology::HostView& host : hosts) {
    const auto other = std::ranges::find_if(hosts, [&](const topology::HostView& one) {
      return one.from_file == host.from_file && one.gpus.size() == host.gpus.size() &&
             one.nics.size() > host.nics.size() && !host.gpus.empty() &&
             one.gpus.front().kind == host.gpus.front().kind;
    });
    if (other == hosts.end()) continue;
    const auto missing = std::ranges::find_if(other->nics, [&](const topology::NearestOther& nic) {
      return std::ranges::find(host.nics, nic.name, &topology::NearestOther::name) == host.nics.end();
    });
    const topology::NearestOther& nic = missing == other->nics.end() ? other->nics.front() : *missing;
    Finding finding = finding_of("nics-differ", 0.75, {nic.evidence, host.gpus.front().evidence});
    finding.verdict =
        text(other->name, " has ", other->nics.size(), " NICs and ", host.name, " has ", host.nics.size());
    return findings.push_back(std::move(finding));
  }
}

/// Ports of one model in one host may belong to different networks; of one name in several hosts they hardly do.
void find_slow_nics(const Job& job, Findings& findings) {
  struct Seen {
    const topology::Nic* nic;
    const topology::Host* host;
  };
  std::map<std::string, Seen> fastest;
  const auto each = [&](auto&& visit) {
    for (const topology::Host& host : job.documents.hosts) {
      for (const topology::Nic& nic : host.nics) {
        if (nic.megabits == 0) continue;
        visit(text("name ", nic.name, ' ', nic.port), Seen{&nic, &host});
        if (!nic.model.empty()) visit("model " + nic.model, Seen{&nic, &host});
      }
    }
  };
  each([&](const std::string& key, const Seen& one) {
    const auto [known, fresh] = fastest.try_emplace(key, one);
    if (!fresh && one.nic->megabits > known->second.nic->megabits) known->second = one;
  });
  each([&](const std::string& key, const Seen& slow) {
    const Seen& fast = fastest.at(key);
    if (slow.nic->megabits >= fast.nic->megabits) return;
    const bool by_name = key.starts_with("name ");
    Finding finding =
        finding_of("nic-slower", by_name ? 0.8 : 0.55, {slow.nic->evidence, fast.nic->evidence});
    finding.verdict =
        text(slow.nic->name, " of ", topology::host_name(*slow.host, job.documents.hosts), " runs at ",
             slow.nic->megabits / 1000, " Gbit/s, ", fast.nic->name, " of ",
             topology::host_name(*fast.host, job.documents.hosts), " at ", fast.nic->megabits / 1000);
    findings.push_back(std::move(finding));
  });
}

void find_slow_ports(const Job& job, Findings& findings) {
  for (const Port& slow : job.tools.ports) {
    if (slow.megabits() == 0 || !is_active(slow)) continue;
    const auto fast = std::ranges::find_if(job.tools.ports, [&](const Port& one) {
      return is_active(one) && one.megabits() > slow.megabits() &&
             (same_name(one, slow) || (!slow.part.empty() && one.part == slow.part));
    });
    if (fast == job.tools.ports.end()) continue;
    Finding finding = finding_of("nic-slower", same_name(*fast, slow) ? 0.8 : 0.55, {slow.rate, fast->rate});
    finding.verdict = text(name_of(slow), " runs at ", slow.megabits() / 1000, " Gbit/s, ", name_of(*fast),
                           " at ", fast->megabits() / 1000);
    return findings.push_back(std::move(finding));
  }
}

void find_ports_down(const Job& job, Findings& findings) {
  for (const Port& port : job.tools.ports) {
    if (!port.state || is_active(port)) continue;
    const auto other = std::ranges::find_if(
        job.tools.ports, [&](const Port& one) { return is_active(one) && same_name(one, port); });
    const auto place = place_of(port.host, port.evidence);
    const bool alone = std::ranges::none_of(job.tools.ports, [&](const Port& one) {
      return is_active(one) && place_of(one.host, one.evidence) == place;
    });
    const bool no_manager = port.state.value == "PORT_INIT" && port.link_layer.value == "InfiniBand";
    if (other == job.tools.ports.end() && !alone && !no_manager)
      continue;  // a second port that is not cabled
    Finding finding = finding_of("port-down", other != job.tools.ports.end() || no_manager ? 0.85 : 0.7,
                                 {port.state.evidence});
    finding.verdict = text(name_of(port), " is ", port.state.value);
    if (no_manager) {
      finding.verdict += ": its cable is in, and no subnet manager has answered";
    } else if (other != job.tools.ports.end()) {
      finding.verdict += text("; ", name_of(*other), " is active");
      finding.evidence.push_back(other->state.evidence);
    }
    return findings.push_back(std::move(finding));
  }
}

/// A GID that the setting names and a port has not, or that belongs to RoCE v1.
void find_gid_index(const Job& job, Findings& findings) {
  const Fact* index = job.setting("NCCL_IB_GID_INDEX");
  if (index == nullptr) return;
  for (const Port& port : job.tools.ports) {
    if (port.link_layer.value != "Ethernet" || port.gids.empty() || !is_active(port)) continue;
    const auto gid = std::ranges::find_if(
        port.gids, [&](const topology::Gid& one) { return std::to_string(one.index) == index->value; });
    const bool missing = gid == port.gids.end();
    if (!missing && gid->type != "RoCE v1" && gid->type != "IB/RoCE v1") continue;
    Finding finding = finding_of("roce-gid", 0.75, {index->evidence, port.link_layer.evidence});
    if (!job.matched("roce-gid")) finding.severity = Severity::warning;
    finding.verdict = text(
        "NCCL_IB_GID_INDEX is ", index->value, "; ", name_of(port),
        missing ? " has no GID of that number" : " has a GID of RoCE v1 there, which no router passes on");
    return findings.push_back(std::move(finding));
  }
}

/// NCCL found that no NIC reaches the memory of GPUs.
void find_no_direct(const Job& job, Findings& findings) {
  if (job.on_one_node()) return;
  for (const topology::Host& host : job.documents.hosts) {
    const auto fast = [](const topology::Nic& nic) { return nic.megabits >= 100'000 && nic.gdr >= 0; };
    const auto first = std::ranges::find_if(host.nics, fast);
    const bool all_off =
        std::ranges::none_of(host.nics, [&](const topology::Nic& nic) { return fast(nic) && nic.gdr > 0; });
    const bool gpus_could =
        std::ranges::any_of(host.gpus, [](const topology::Gpu& gpu) { return gpu.gdr > 0; });
    if (first == host.nics.end() || !all_off || !gpus_could) continue;
    Finding finding = finding_of("gdr-disabled", 0.7, {first->evidence});
    finding.verdict = text("NCCL found no NIC of ", topology::host_name(host, job.documents.hosts),
                           " that reaches the GPUs' memory (gdr=\"0\"), although the GPUs allow it");
    return findings.push_back(std::move(finding));
  }
}

void find_locked_memory(const Job& job, Findings& findings) {
  constexpr std::int64_t too_little = std::int64_t{64}
                                      << 20;  // NCCL registers 4 MiB and more for each channel and peer
  constexpr std::int64_t enough = std::int64_t{1} << 30;
  const bool works = std::ranges::any_of(job.processes, [](const Process& one) {
    return one.connections.rdma + one.connections.rdma_direct > 0;
  });
  if (job.on_one_node() || works) return;
  for (const topology::Limit& limit : job.tools.limits) {
    if (limit.of != topology::LimitOf::locked_memory || limit.value < 0 || limit.value >= enough) continue;
    const bool certain = limit.value <= too_little;
    Finding finding = finding_of("memlock-limit", certain ? 0.6 : 0.4, {limit.evidence});
    if (!certain) finding.severity = Severity::warning;
    finding.verdict = text("locked memory is limited to ", limit.value >> 10, " KiB on ",
                           place_of(limit.host, limit.evidence), ", which is too low for RDMA");
    return findings.push_back(std::move(finding));
  }
}

/// Each connection takes files: sockets, shared memory, events.
void find_open_files(const Job& job, Findings& findings) {
  constexpr std::int64_t for_a_rank = 8;
  std::int64_t ranks = 0;
  for (const Process& one : job.processes) ranks = std::max(ranks, one.ranks);
  for (const topology::Limit& limit : job.tools.limits) {
    if (limit.of != topology::LimitOf::open_files || limit.value < 0 || limit.value >= for_a_rank * ranks)
      continue;
    Finding finding = finding_of("open-files-limit", 0.5, {limit.evidence});
    finding.severity = Severity::warning;
    finding.verdict = text("a process may open ", limit.value, " files on ",
                           place_of(limit.host, limit.evidence), ", which is low for ", ranks, " ranks");
    return findings.push_back(std::move(finding));
  }
}

/// A GPU without work lowers its speed, never its width. A NIC lowers neither.
void find_slow_links(const Job& job, Findings& findings) {
  for (const topology::PciStatus& one : job.tools.pci) {
    if (!one.able.known() || !one.now.known()) continue;
    const bool is_nic = one.what.starts_with("I") || one.what.starts_with("E");
    const bool narrow = one.now.width < one.able.width;
    if (!narrow && (!is_nic || one.now.gigatransfers >= one.able.gigatransfers)) continue;
    Finding finding = finding_of("pcie-link-slow", narrow ? 0.75 : 0.6, {one.evidence});
    finding.verdict = text(one.what, ' ', one.bus, " on ", place_of(one.host, one.evidence),
                           " runs its PCIe link at ", one.now.gigatransfers, " GT/s x", one.now.width,
                           "; it could at ", one.able.gigatransfers, " GT/s x", one.able.width);
    return findings.push_back(std::move(finding));
  }
}

constexpr JobRule host_table[] = {
    {"nics-differ",
     "topology files or nvidia-smi topo -m: a host with fewer NICs than another with the same GPUs",
     find_nics_of_topologies},
    {"nic-slower", "topology files: a port slower than that of the same name or model", find_slow_nics},
    {"nic-slower",
     "ibv_devinfo -v: an active port with less width or speed than that of the same name or model",
     find_slow_ports},
    {"port-down",
     "ibv_devinfo: a port that is not active while it is on another host; no active port; PORT_INIT of "
     "InfiniBand",
     find_ports_down},
    {"roce-gid",
     "ibv_devinfo -v: NCCL_IB_GID_INDEX names a GID that an active port has not, or one of RoCE v1",
     find_gid_index},
    {"gdr-disabled", "topology file: gdr=0 of every fast port", find_no_direct},
    {"memlock-limit",
     "ulimit -a: locked memory below 1 GiB, in a job of several hosts whose log shows no RDMA connection",
     find_locked_memory},
    {"open-files-limit", "ulimit -a: fewer than 8 open files for each rank", find_open_files},
    {"pcie-link-slow", "lspci -vvv: LnkSta narrower than LnkCap; of a NIC also slower", find_slow_links},
};

}  // namespace

std::span<const JobRule> host_rules() {
  return host_table;
}

}  // namespace weft::report::nccl
