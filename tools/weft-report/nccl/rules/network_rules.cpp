// Causes in the network that no single line shows: interfaces, sockets in place of RDMA, GPUDirect, GIDs, MTUs.

#include <algorithm>
#include <map>
#include <utility>

#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using Findings = std::vector<Finding>;

/// The name of each interface in "[0]eth0:10.0.0.1<0> [1]br-05ab:172.19.0.1<0>".
std::vector<std::string> interfaces_in(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const auto space = list.find(' ');
    std::string_view one = list.substr(0, space);
    list.remove_prefix(space == std::string_view::npos ? list.size() : space + 1);
    if (one.starts_with('[')) one.remove_prefix(std::min(one.size(), one.find(']') + 1));
    const std::string_view name = one.substr(0, one.find(':'));
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

/// Bridges and virtual links of containers and machines: no other host can be reached over them.
bool is_virtual(std::string_view name) {
  constexpr std::string_view starts[] = {"docker", "br-",    "veth",    "virbr",  "cni",  "flannel",
                                         "cali",   "podman", "lxc",     "lxd",    "vnet", "tap",
                                         "kube-",  "weave",  "nerdctl", "cilium", "tun",  "veth_"};
  return std::ranges::any_of(starts, [&](std::string_view start) { return name.starts_with(start); });
}
bool is_ip_over_ib(std::string_view name) {
  return name.starts_with("ib") && !name.starts_with("ibr");
}
std::string_view first_interface(const std::vector<std::string>& names, bool (*is)(std::string_view)) {
  const auto found = std::ranges::find_if(names, [&](const std::string& name) { return is(name); });
  return found == names.end() ? std::string_view() : std::string_view(*found);
}

/// "eth0:10.0.0.1<0>" is "10.0.0.1"; of several interfaces the first.
std::string_view first_address(std::string_view list) {
  if (list.starts_with('[')) list.remove_prefix(std::min(list.size(), list.find(']') + 1));
  const std::string_view address = list.substr(std::min(list.find(':') + 1, list.size()));
  return address.substr(0, address.find_first_of("<% "));
}
bool is_link_local(std::string_view address) {
  return address.starts_with("169.254.") || address.starts_with("fe80:");
}

/// Two hosts that start over one address do not reach each other by it.
bool find_one_address_of_two_hosts(const Job& job, Findings& findings) {
  std::map<std::string_view, const Process*> first;
  for (const Process& one : job.processes) {
    const std::string_view address = first_address(one.bootstrap.value);
    if (address.empty() || one.host.empty()) continue;
    const bool only_here = address.starts_with("127.") || address == "::1" || is_link_local(address) ||
                           !first_interface(interfaces_in(one.bootstrap.value), is_virtual).empty();
    const auto [known, fresh] = first.try_emplace(address, &one);
    if (fresh || known->second->host == one.host || !only_here) continue;
    Finding finding =
        finding_of("wrong-interface", 0.93, {known->second->bootstrap.evidence, one.bootstrap.evidence});
    finding.verdict = text(known->second->host, " and ", one.host, " both start over ",
                           one.bootstrap.value.substr(0, one.bootstrap.value.find('<')),
                           ", an address that only the host itself reaches");
    findings.push_back(std::move(finding));
    return true;
  }
  return false;
}

/// NCCL_IB_HCA and no device: the name may be wrong, or the container has no devices at all.
void find_named_hcas(const Job& job, Findings& findings) {
  const Fact* named = job.setting("NCCL_IB_HCA");
  const auto none = job.asides.find("no RDMA device");
  const bool has_ports =
      std::ranges::any_of(job.processes, [](const Process& one) { return bool(one.nics); });
  if (named == nullptr || none == job.asides.end() || has_ports) return;
  Finding finding = finding_of("wrong-hca", 0.5, {none->second, named->evidence});
  finding.severity = Severity::warning;
  finding.verdict = text("NCCL finds no RDMA device of NCCL_IB_HCA=", named->value,
                         ": either no device has such a name, or the container has no device nodes");
  finding.fix =
      text("to find out: ls /dev/infiniband and ibv_devinfo -l inside the container; then: ", finding.fix,
           "; or pass /dev/infiniband to the container");
  findings.push_back(std::move(finding));
}

void find_wrong_interface(const Job& job, Findings& findings) {
  if (job.on_one_node() || find_one_address_of_two_hosts(job, findings)) return;
  for (const Process& one : job.processes) {
    const std::vector<std::string> data = interfaces_in(one.sockets.value);
    const std::vector<std::string> start = interfaces_in(one.bootstrap.value);
    const bool loopback = std::ranges::find(start, "lo") != start.end() && job.several_nodes();
    const std::string_view name = loopback ? std::string_view("lo")
                                  : first_interface(start, is_virtual).empty()
                                      ? first_interface(data, is_virtual)
                                      : first_interface(start, is_virtual);
    if (name.empty()) continue;
    const bool of_start = std::ranges::find(start, name) != start.end();
    Finding finding =
        finding_of("wrong-interface", 0.9, {of_start ? one.bootstrap.evidence : one.sockets.evidence});
    finding.verdict = text("traffic goes over ", name, ", which does not reach other hosts");
    return findings.push_back(std::move(finding));
  }
}

/// What says that there is RDMA hardware.
const Evidence* rdma_hardware(const Job& job) {
  const auto port = std::ranges::find_if(
      job.tools.ports, [](const topology::Port& one) { return one.link_layer.value != "ip"; });
  if (port != job.tools.ports.end()) return &port->evidence;
  for (const Process& one : job.processes) {
    if (one.nics) return &one.nics.evidence;
    if (!first_interface(interfaces_in(one.sockets.value), is_ip_over_ib).empty())
      return &one.sockets.evidence;
    if (!first_interface(interfaces_in(one.bootstrap.value), is_ip_over_ib).empty())
      return &one.bootstrap.evidence;
  }
  const Fact* wanted = job.setting("NCCL_IB_HCA");
  return wanted == nullptr ? nullptr : &wanted->evidence;
}

void find_socket_fallback(const Job& job, Findings& findings) {
  if (job.on_one_node()) return;
  const auto by_socket = [](const Process& one) {
    return one.network.value == "Socket" || (!one.network && one.sockets && !one.nics);
  };
  const auto found = std::ranges::find_if(job.processes, by_socket);
  if (found == job.processes.end()) return;
  const Fact& network = found->network ? found->network : found->sockets;
  const Fact* disabled = job.setting("NCCL_IB_DISABLE");
  const Evidence* hardware = rdma_hardware(job);
  const bool by_setting = disabled != nullptr && disabled->value != "0";
  if (hardware == nullptr && !by_setting) return;
  Finding finding = finding_of("net-fallback-socket", hardware != nullptr ? 0.9 : 0.7, {network.evidence});
  if (by_setting) {
    finding.evidence.push_back(disabled->evidence);
    finding.verdict = "data between nodes goes over TCP because NCCL_IB_DISABLE is set";
    finding.fix = "unset NCCL_IB_DISABLE (environment, /etc/nccl.conf, ~/.nccl.conf)";
  }
  if (hardware != nullptr && hardware != &network.evidence) finding.evidence.push_back(*hardware);
  if (hardware == nullptr) finding.severity = Severity::warning;
  findings.push_back(std::move(finding));
}

void find_direct_disabled(const Job& job, Findings& findings) {
  int on = 0;
  int direct = 0;
  const Process* off = nullptr;
  const Process* through_host = nullptr;
  for (const Process& one : job.processes) {
    on += one.direct_on;
    direct += one.connections.rdma_direct;
    if (off == nullptr && one.direct_off > 0) off = &one;
    if (through_host == nullptr && one.connections.rdma > 0) through_host = &one;
  }
  if (off != nullptr && on == 0) {
    Finding finding = finding_of("gdr-disabled", 0.9, {off->first_direct_off});
    if (through_host != nullptr) finding.evidence.push_back(through_host->connections.first_rdma);
    return findings.push_back(std::move(finding));
  }
  if (through_host == nullptr || direct > 0) return;
  findings.push_back(finding_of(on > 0 ? "gdr-distance" : "gdr-disabled", on > 0 ? 0.75 : 0.6,
                                {through_host->connections.first_rdma}));
}

/// Hosts all of whose connections miss GPU memory while those of other hosts reach it.
void find_direct_on_some_hosts(const Job& job, Findings& findings) {
  std::map<std::string, std::pair<int, const Process*>>
      hosts;  // connections from GPU memory; a process without
  for (const Process& one : job.processes) {
    if (one.connections.rdma + one.connections.rdma_direct == 0) continue;
    auto& [direct, without] = hosts[one.host];
    direct += one.connections.rdma_direct;
    if (one.connections.rdma > 0) without = &one;
  }
  if (std::ranges::none_of(hosts, [](const auto& host) { return host.second.first > 0; })) return;
  for (const auto& [host, counts] : hosts) {
    if (counts.first > 0) continue;
    Finding finding = finding_of("gdr-disabled", 0.85, {counts.second->connections.first_rdma});
    finding.verdict = text("GPUDirect RDMA is off on ", host, " and on where other hosts use it");
    return findings.push_back(std::move(finding));
  }
}

/// The first three numbers of an IPv4 address in a GID; empty for other GIDs.
std::string_view network_of(std::string_view gid) {
  constexpr std::string_view mapped = "::ffff:";
  if (!gid.starts_with(mapped)) return {};
  gid.remove_prefix(mapped.size());
  return gid.substr(0, gid.rfind('.'));
}

void find_by_gids(const Job& job, Findings& findings) {
  if (job.gids.empty() || (job.roce() == nullptr && network_of(job.gids.front().local).empty() &&
                           !job.gids.front().local.starts_with("fe80")))
    return;
  const GidPair& pair = job.gids.front();
  const std::string_view local = network_of(pair.local);
  const std::string_view remote = network_of(pair.remote);
  const bool link_local = pair.local.starts_with("fe80") || pair.remote.starts_with("fe80");
  if (link_local && job.infiniband() != nullptr)
    return findings.push_back(finding_of("fabric-unreachable", 0.6, {pair.evidence}));
  if (link_local) return findings.push_back(finding_of("roce-gid", 0.9, {pair.evidence}));
  if (local != remote) {
    Finding finding = finding_of("rail-cross-nic", 0.8, {pair.evidence});
    finding.verdict =
        text("a NIC with ", pair.local, " does not reach one with ", pair.remote, ": another network");
    return findings.push_back(std::move(finding));
  }
  findings.push_back(finding_of("fabric-unreachable", 0.65, {pair.evidence}));
}

void find_mtus(const Job& job, Findings& findings) {
  std::map<std::string, const topology::Port*> first;
  for (const topology::Port& port : job.tools.ports) {
    if (!port.mtu || is_virtual(port.hca)) continue;
    const auto [known, fresh] =
        first.try_emplace(text(port.hca, ' ', port.number, ' ', port.link_layer.value), &port);
    const topology::Port& other = *known->second;
    if (fresh || other.mtu.value == port.mtu.value) continue;
    const bool fails = job.matched("roce-gid") || job.matched("fabric-unreachable");
    Finding finding = finding_of("mtu-mismatch", fails ? 0.85 : 0.7, {other.mtu.evidence, port.mtu.evidence});
    if (fails) finding.severity = Severity::critical;
    finding.verdict =
        text(port.hca, " has MTU ", other.mtu.value, " on one host and ", port.mtu.value, " on another");
    return findings.push_back(std::move(finding));
  }
}

/// A process all of whose pairs of GPU and NIC are too far apart.
void find_far_nics(const Job& job, Findings& findings) {
  const auto far = std::ranges::find_if(
      job.processes, [](const Process& one) { return one.far_pairs > 0 && one.near_pairs == 0; });
  if (far != job.processes.end()) findings.push_back(finding_of("gdr-distance", 0.85, {far->first_far_pair}));
}

/// InfiniBand and Ethernet ports in one list, and connections that fail.
void find_mixed_nics(const Job& job, Findings& findings) {
  if (!job.matched("roce-gid") && !job.matched("fabric-unreachable")) return;
  for (const Process& one : job.processes) {
    const std::string& nics = one.nics.value;
    if (nics.find("/IB") == std::string::npos || nics.find("/RoCE") == std::string::npos) continue;
    Finding finding = finding_of("wrong-hca", 0.85, {one.nics.evidence});
    finding.verdict =
        text("NCCL uses InfiniBand and Ethernet ports of ", one.host, " together, and connections fail");
    return findings.push_back(std::move(finding));
  }
}

/// A host with fewer NICs than another.
void find_nic_counts(const Job& job, Findings& findings) {
  const Process* first = nullptr;
  for (const Process& one : job.processes) {
    if (!one.nics || one.nics.value.find(" OOB ") == std::string::npos)
      continue;  // the line may have been cut
    if (first == nullptr) first = &one;
    const auto own = std::ranges::count(one.nics.value, '/');
    const auto others = std::ranges::count(first->nics.value, '/');
    if (own == others || one.host == first->host) continue;
    Finding finding = finding_of("nics-differ", 0.8, {first->nics.evidence, one.nics.evidence});
    finding.verdict = text(first->host, " uses ", others, " network ports and ", one.host, " uses ", own);
    return findings.push_back(std::move(finding));
  }
}

const Process* process_on_sockets(const Job& job) {
  const auto found =
      std::ranges::find(job.processes, "Socket", [](const Process& one) { return one.network.value; });
  return found == job.processes.end() ? nullptr : &*found;
}
/// The network is Socket although an aside says that a plug-in was wanted.
void find_unused_plugin(const Job& job, Findings& findings) {
  const Process* sockets = process_on_sockets(job);
  if (sockets == nullptr) return;
  const auto efa = job.asides.find("EFA is wanted");
  if (efa != job.asides.end())
    findings.push_back(finding_of("ofi-missing", 0.88, {sockets->network.evidence, efa->second}));
  const auto named = job.asides.find("a plug-in is named");
  const auto old = job.asides.find("an old plug-in");
  if (named != job.asides.end() && old != job.asides.end())
    findings.push_back(
        finding_of("plugin-mismatch", 0.92, {old->second, named->second, sockets->network.evidence}));
}

/// On a machine without RDMA gIB ends the process, whatever NCCL_NET_PLUGIN says: its folder is in LD_LIBRARY_PATH.
void find_gib_without_verbs(const Job& job, Findings& findings) {
  const auto gib = job.asides.find("gIB begins");
  const auto verbs = job.asides.find("no libibverbs");
  if (gib == job.asides.end() || verbs == job.asides.end()) return;
  for (const Process& one : job.processes) {
    if (one.network.value == "gIB") return;
  }
  findings.push_back(finding_of("plugin-settings", 0.75, {verbs->second, gib->second}));
}

constexpr JobRule network_table[] = {
    {"wrong-interface",
     "start-up or data on lo, or on a bridge or link of containers, in a job of several hosts; two hosts "
     "that start over one address",
     find_wrong_interface},
    {"wrong-hca", "NET/IB : No device found although NCCL_IB_HCA names devices", find_named_hcas},
    {"net-fallback-socket",
     "the network is Socket, and hardware for RDMA is there, NCCL_IB_HCA names some or NCCL_IB_DISABLE is "
     "set",
     find_socket_fallback},
    {"gdr-disabled", "GPU Direct RDMA Disabled for every HCA; or all connections to other nodes lack /GDRDMA",
     find_direct_disabled},
    {"gdr-disabled", "a host all of whose connections lack /GDRDMA while others have it",
     find_direct_on_some_hosts},
    {"roce-gid, rail-cross-nic, fabric-unreachable", "the two GIDs of a connection that failed",
     find_by_gids},
    {"mtu-mismatch", "ibv_devinfo: one HCA with two active_mtu", find_mtus},
    {"gdr-distance", "GPU Direct RDMA Disabled for GPU ... (distance), and never Enabled, in a process",
     find_far_nics},
    {"wrong-hca", "IB and RoCE in one list of NICs, and connections that fail", find_mixed_nics},
    {"nics-differ", "hosts with different numbers of ports in NET/IB : Using", find_nic_counts},
    {"plugin-settings", "NET/gIB begins, libibverbs is not there, and no process says Using network gIB",
     find_gib_without_verbs},
    {"ofi-missing", "network Socket although EFA is asked for, or a plug-in that NCCL calls too old",
     find_unused_plugin},
};

}  // namespace

std::span<const JobRule> network_rules() {
  return network_table;
}

}  // namespace weft::report::nccl
