#include "weft-report/nccl/judge.hpp"

#include <algorithm>
#include <cmath>

#include "weft-report/env/nccl_version.hpp"
#include "weft/core/text.hpp"

namespace weft::report::bandwidth {
namespace {

constexpr double least_contradiction = 2;
constexpr int newest_nvls = 90;  // compute capability of the first GPUs whose switches sum

double links_of_file(const topology::Gpu& gpu) {
  const double of_link = gpu.sm >= 100  ? 40.1
                         : gpu.sm >= 90 ? 20.6
                         : gpu.sm == 86 ? 12
                         : gpu.sm >= 70 ? 20
                                        : 18;
  const double nvlinks = gpu.sm > 0 ? gpu.nvlinks() * of_link : 0;
  const double pcie = gpu.path.empty() ? 0 : gpu.path.front().link.gigabytes();
  return std::max(nvlinks, pcie);
}

bool is_off(const nccl::Job& job, const char* name) {
  const nccl::Fact* fact = job.setting(name);
  return fact != nullptr && fact->value == "0";
}

Shape shape_of(const nccl::Job& job, const Table& table) {
  Shape shape{.ranks = table.ranks, .nodes = static_cast<std::int64_t>(table.hosts.size())};
  std::int64_t ranks = 0;
  std::int64_t nodes = 0;
  for (const nccl::Process& one : job.processes) {
    ranks = std::max(ranks, one.ranks);
    nodes = std::max(nodes, one.nodes);
  }
  if (shape.ranks < 1) shape.ranks = ranks;
  if (shape.nodes < 1 || nodes > shape.nodes) shape.nodes = std::max<std::int64_t>(nodes, 1);
  if (table.nodes > 0) shape.nodes = table.nodes;
  shape.nodes = std::min(shape.nodes, std::max<std::int64_t>(shape.ranks, 1));
  const bool may = job.links.nvls_channels > 0 ||
                   (job.links.nvls_channels < 0 && compute_capability(table.device) >= newest_nvls);
  shape.switch_sums = may && !is_off(job, "NCCL_NVLS_ENABLE");
  return shape;
}

/// The operation that the figures give away once the number of ranks is known.
std::string operation_of(const Table& table, std::int64_t ranks) {
  if (!table.op.empty() || ranks < 2) return table.op;
  const Row* row = table.largest();
  if (row == nullptr || row->redop.empty() || row->best().algbw < 1) return {};
  const double ratio = row->best().busbw / row->best().algbw;
  const auto is = [&](const char* op) { return std::abs(ratio / bus_factor(op, ranks) - 1) < 0.02; };
  if (row->root >= 0) return is("reduce") ? "reduce" : "";
  return is("all_reduce") ? "all_reduce" : is("reduce_scatter") ? "reduce_scatter" : "";
}

std::optional<Collective> collective_of(const std::string& op) {
  constexpr std::array<std::string_view, collectives> names{"broadcast", "reduce", "all_gather",
                                                            "reduce_scatter", "all_reduce"};
  const auto found = std::ranges::find(names, op);
  if (found == names.end()) return std::nullopt;
  return static_cast<Collective>(found - names.begin());
}

/// Lines of 2.24 and later count the bytes of one rank, where tables count those of all.
std::int64_t bytes_of_line(Collective collective, std::int64_t bytes, const Communicator& of) {
  const bool shared = collective == Collective::all_gather || collective == Collective::reduce_scatter;
  return shared && of.version >= NcclVersion{{2, 24, 0}} ? bytes / of.ranks : bytes;
}

/// Measured times contradict the costs where the choice takes twice as long as they say, and the fastest other one would be faster.
void find_contradiction(const CostTable& costs, Collective collective, const Communicator& of,
                        SizeChoice& size) {
  const Choice& used = size.chosen ? *size.chosen : size.predicted;
  for (std::size_t i = 0; i < algorithms * protocols; ++i) {
    const auto a = static_cast<Algorithm>(i / protocols);
    const auto p = static_cast<Protocol>(i % protocols);
    if (a == used.algorithm && p == used.protocol) continue;
    const double time = microseconds(costs, collective, a, p, size.bytes, of);
    if (time >= 0 && (size.other.microseconds < 0 || time < size.other.microseconds))
      size.other = {a, p, time};
  }
  size.contradicts = used.microseconds >= 0 && size.measured > least_contradiction * used.microseconds &&
                     size.other.microseconds >= 0 && size.other.microseconds < size.measured;
}

/// What the log says of the widest communicator, and of the table's where it says nothing.
Communicator communicator_of(const nccl::Job& job, const Judged& one) {
  Communicator of{.ranks = static_cast<int>(std::min<std::int64_t>(one.shape.ranks, 1 << 20)),
                  .nodes = static_cast<int>(std::min<std::int64_t>(one.shape.nodes, 1 << 20)),
                  .capability = compute_capability(one.table->device)};
  if (const auto version = job.versions.empty() ? std::nullopt : parse_nccl_version(job.versions[0].value, 0))
    of.version = *version;
  for (const topology::Host& host : job.documents.hosts) {
    for (const topology::Gpu& gpu : host.gpus)
      if (gpu.sm > 0) of.capability = of.capability > 0 ? std::min(of.capability, gpu.sm) : gpu.sm;
  }
  of.capability = std::max(of.capability, 70);
  const int vendor = job.links.cpu_vendor;
  of.on_x86 = vendor == 1 || vendor == 2 || vendor == 4;
  int channels = 0;
  for (const auto& [pattern, graph] : job.links.graphs) {
    if (pattern <= 4 && (channels == 0 || graph.channels < channels)) channels = graph.channels;
  }
  if (channels > 0) of.channels = 2 * channels;
  return of;
}

}  // namespace

Links links_of(const nccl::Job& job) {
  Links links = job.links;
  for (const topology::Host& host : job.documents.hosts) {
    for (const topology::Gpu& gpu : host.gpus) {
      const double bw = links_of_file(gpu);
      if (links.gpu_evidence.line != 0 || bw <= links.gpu) continue;
      links.gpu = bw;
    }
    for (const topology::Nic& nic : host.nics) {
      if (nic.megabits <= 0) continue;
      const double bw = static_cast<double>(nic.megabits) / 8000;
      links.nics[host.hash.empty() ? host.file : host.hash].files.try_emplace(nic.name,
                                                                              Nic{bw, nic.evidence});
    }
  }
  for (const topology::Port& port : job.tools.ports) {
    const bool active = port.state.value.find("ACTIVE") != std::string::npos;
    if (!active || port.megabits() <= 0 || port.link_layer.value == "ip") continue;
    const double bw = static_cast<double>(port.megabits()) / 8000;
    links.nics[port.host].files.try_emplace(text(port.hca, ':', port.number), Nic{bw, port.rate});
  }
  return links;
}

std::vector<Judged> judge(const nccl::Job& job) {
  const Links links = links_of(job);
  std::vector<Judged> all;
  for (const std::vector<Table>* tables : {&job.tables, &job.documents.tables}) {
    for (const Table& table : *tables) {
      if (table.rows.empty()) continue;
      Judged one{.table = &table, .shape = shape_of(job, table)};
      one.op = operation_of(table, one.shape.ranks);
      one.speed = speed_of(table, one.op, one.shape, table.links_alone ? links : Links{});
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<SizeChoice> choices_by_size(const nccl::Job& job) {
  if (!job.tuning) return {};
  const CostTable& costs = job.tuning.costs;
  std::vector<SizeChoice> all;
  for (const Judged& one : judge(job)) {
    const auto collective = collective_of(one.op);
    if (!collective || !one.table->on_gpus() || one.shape.ranks < 2) continue;
    const Communicator of = communicator_of(job, one);
    for (const Row& row : one.table->rows) {
      if (row.bytes == 0) continue;
      SizeChoice size{.bytes = row.bytes, .measured = row.best().microseconds};
      size.predicted = choose(costs, *collective, row.bytes, of);
      if (size.predicted.microseconds < 0) continue;
      const auto line = job.tuning.chosen.find({*collective, bytes_of_line(*collective, row.bytes, of)});
      if (line != job.tuning.chosen.end()) {
        const auto& [algorithm, protocol, evidence] = line->second;
        size.chosen =
            Choice{algorithm, protocol, microseconds(costs, *collective, algorithm, protocol, row.bytes, of)};
      }
      find_contradiction(costs, *collective, of, size);
      all.push_back(size);
    }
    break;
  }
  return all;
}

}  // namespace weft::report::bandwidth
