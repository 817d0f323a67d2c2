// Causes by the values of lines that every job prints: whether rings use GPUDirect RDMA, how many NICs ranks have, how long the start took.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using Findings = std::vector<Finding>;

const Stated* said_by(const Process& process, std::string_view format) {
  const auto found = process.stated.find(format);
  return found == process.stated.end() ? nullptr : &found->second;
}

/// "Connected all rings, use ring PXN 0 GDR 0" of every process. Where the log names connections, network rules judge them.
void find_rings_without_direct(const Job& job, Findings& findings) {
  if (!job.several_nodes()) return;
  const Stated* first = nullptr;
  bool over_rdma = false;
  for (const Process& one : job.processes) {
    if (one.connections.rdma + one.connections.rdma_direct > 0) return;
    over_rdma = over_rdma || (one.network && one.network.value != "Socket");
    const Stated* rings = said_by(one, "rings-connected");
    if (rings == nullptr) continue;
    if (rings->values[1] != "0") return;
    if (first == nullptr) first = rings;
  }
  if (over_rdma && first != nullptr) findings.push_back(finding_of("gdr-disabled", 0.7, {first->evidence}));
}

void find_unequal_nics(const Job& job, Findings& findings) {
  const Stated* counts = job.stated("nics-of-ranks");
  if (counts == nullptr || counts->values[0] == counts->values[1]) return;
  Finding finding = finding_of("nics-differ", 0.8, {counts->evidence});
  finding.verdict = text("one rank has ", counts->values[0], " NICs and another ", counts->values[1]);
  findings.push_back(std::move(finding));
}

/// One port by its name, at two speeds.
void find_unequal_speeds(const Job& job, Findings& findings) {
  constexpr std::size_t name_of_port = 2;
  constexpr std::size_t speed_of_port = 6;
  std::map<std::string, std::pair<const Process*, const Stated*>> first;
  for (const Process& one : job.processes) {
    const Stated* port = said_by(one, "port");
    if (port == nullptr) continue;
    const auto [known, fresh] = first.try_emplace(port->values[name_of_port], &one, port);
    const auto& [other, before] = known->second;
    if (fresh || before->values[speed_of_port] == port->values[speed_of_port]) continue;
    Finding finding = finding_of("nics-differ", 0.75, {before->evidence, port->evidence});
    finding.verdict = text(known->first, " runs at ", before->values[speed_of_port], " Mb/s on ", other->host,
                           " and at ", port->values[speed_of_port], " on ", one.host);
    return findings.push_back(std::move(finding));
  }
}

/// The longest start of a communicator.
void find_slow_start(const Job& job, Findings& findings) {
  constexpr double slow_seconds = 60;
  constexpr std::size_t total = 3;
  constexpr std::array<std::string_view, 8> parts{"kernels",  "memory", "bootstrap",   "exchanges",
                                                  "topology", "graphs", "connections", "the rest"};
  const Stated* slowest = nullptr;
  const auto seconds = [](const Stated& one, std::size_t value) {
    return std::strtod(one.values[value].c_str(), nullptr);
  };
  for (const Process& one : job.processes) {
    const Stated* timings = said_by(one, "init-timings");
    if (timings != nullptr && (slowest == nullptr || seconds(*timings, total) > seconds(*slowest, total)))
      slowest = timings;
  }
  if (slowest == nullptr || seconds(*slowest, total) < slow_seconds) return;
  std::size_t longest = 0;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (seconds(*slowest, total + 1 + i) > seconds(*slowest, total + 1 + longest)) longest = i;
  }
  Finding finding = finding_of("slow-start", 0.7, {slowest->evidence});
  finding.verdict = text("a communicator took ", slowest->values[total], " s to start, ",
                         slowest->values[total + 1 + longest], " s of it for ", parts[longest]);
  findings.push_back(std::move(finding));
}

constexpr JobRule stated_table[] = {
    {"gdr-disabled",
     "Connected all rings, use ring PXN ... GDR 0 on every rank of several nodes, and no line of a "
     "connection",
     find_rings_without_direct},
    {"nics-differ", "Local Net device counts: min below max", find_unequal_nics},
    {"nics-differ", "NET/IB: a port with two speeds", find_unequal_speeds},
    {"slow-start", "Init timings: a total of 60 s or more", find_slow_start},
};

}  // namespace

std::span<const JobRule> stated_rules() {
  return stated_table;
}

}  // namespace weft::report::nccl
