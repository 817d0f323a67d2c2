// Topology and graph files that are not of this job: another machine's, or another choice than NCCL made.

#include <algorithm>
#include <set>

#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using Findings = std::vector<Finding>;

/// "0000:1b:00.0" as logs print it: "1b000".
std::string bus_of_logs(std::string_view bus) {
  std::string digits;
  for (const char c : bus) {
    if (c != ':' && c != '.' && (c != '0' || !digits.empty())) digits += c;
  }
  return digits;
}

/// A file that the job was told to read decides what NCCL does; one that lies beside the logs may only be there by mistake.
void weigh(Finding& finding, const Job& job, const char* setting) {
  if (job.setting(setting) != nullptr) {
    finding.confidence = std::min(1.0, finding.confidence + 0.2);
  } else {
    finding.severity = Severity::warning;
  }
}

void find_other_machine(const Job& job, Findings& findings) {
  std::set<std::string> buses;
  const Process* process = nullptr;
  for (const Process& one : job.processes) {
    if (!one.bus) continue;
    buses.insert(one.bus.value);
    if (process == nullptr) process = &one;
  }
  if (process == nullptr) return;
  for (const topology::Host& host : job.documents.hosts) {
    const bool shared = std::ranges::any_of(
        host.gpus, [&](const topology::Gpu& gpu) { return buses.contains(bus_of_logs(gpu.bus())); });
    if (shared || host.gpus.empty()) continue;
    Finding finding =
        finding_of("topology-file-bad", 0.6, {host.gpus.front().evidence, process->bus.evidence});
    finding.verdict =
        text("the topology of ", host.file, " has a GPU at ", host.gpus.front().bus(), " and none at ",
             process->bus.value, ", where ", process->host, " has one: it is of another machine");
    weigh(finding, job, "NCCL_TOPO_FILE");
    return findings.push_back(std::move(finding));
  }
}

/// Since NCCL 2.21 the upper bits of a device number say which host of an NVLink domain it is on.
std::int64_t number_on_host(std::int64_t dev) {
  return dev & 0xff'ffff'ffff'ffff;
}

/// A GPU or network device of a graph that no topology has.
void find_graph_without_device(const Job& job, Findings& findings) {
  std::set<std::int64_t> gpus;
  std::set<std::int64_t> nets;
  for (const topology::Host& host : job.documents.hosts) {
    for (const topology::Gpu& gpu : host.gpus) gpus.insert(gpu.dev);
    for (const topology::Nic& nic : host.nics) nets.insert(nic.dev);
  }
  if (gpus.empty()) return;
  for (const topology::Graph& graph : job.documents.graphs) {
    for (const topology::Channel& way : graph.ways) {
      const auto gpu = std::ranges::find_if(
          way.gpus, [&](const topology::GraphGpu& one) { return !gpus.contains(number_on_host(one.dev)); });
      const auto net = std::ranges::find_if(
          way.nets, [&](std::int64_t one) { return !nets.contains(number_on_host(one)); });
      if (gpu == way.gpus.end() && net == way.nets.end()) continue;
      Finding finding =
          finding_of("graph-file-leftover", 0.7, {graph.evidence, job.documents.hosts.front().evidence});
      finding.verdict = text(
          "the graph of ", graph.evidence.file, " names ", gpu != way.gpus.end() ? "GPU " : "network device ",
          number_on_host(gpu != way.gpus.end() ? gpu->dev : *net), ", which the topology has not");
      weigh(finding, job, "NCCL_GRAPH_FILE");
      return findings.push_back(std::move(finding));
    }
  }
}

std::string choice(const topology::Graph& graph) {
  return text(graph.channels, " channels of ", graph.intra_gigabytes, '/', graph.inter_gigabytes, " GB/s, ",
              graph.intra_type, '/', graph.inter_type);
}

/// A graph that none of the log's communicators has.
void find_other_graph(const Job& job, Findings& findings) {
  for (const topology::Graph& graph : job.documents.graphs) {
    const auto same_pattern = [&](const topology::Graph& line) { return line.pattern == graph.pattern; };
    const auto line = std::ranges::find_if(job.patterns, same_pattern);
    const bool chosen =
        std::ranges::any_of(job.patterns, [&](const topology::Graph& one) { return one.alike(graph); });
    if (graph.channels == 0 || line == job.patterns.end() || chosen) continue;  // 0: it was not looked for
    Finding finding = finding_of("graph-file-leftover", 0.5, {graph.evidence, line->evidence});
    finding.verdict =
        text("the graph of ", graph.evidence.file, " has ", choice(graph), "; NCCL chose ", choice(*line));
    weigh(finding, job, "NCCL_GRAPH_FILE");
    return findings.push_back(std::move(finding));
  }
}

constexpr JobRule file_table[] = {
    {"topology-file-bad", "topology file none of whose GPUs has a bus number of the logs",
     find_other_machine},
    {"graph-file-leftover", "graph file with a GPU or network device that the topology file lacks",
     find_graph_without_device},
    {"graph-file-leftover", "graph file with other channels or speeds than every Pattern line of its kind",
     find_other_graph},
};

}  // namespace

std::span<const JobRule> file_rules() {
  return file_table;
}

}  // namespace weft::report::nccl
