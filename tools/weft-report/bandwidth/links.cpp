#include "weft-report/bandwidth/links.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "weft-report/bandwidth/words.hpp"
#include "weft-report/topology/graph.hpp"

namespace weft::report::bandwidth {
namespace {

constexpr double most_of_a_link = 4000;  // a GPU alone has 5000 in NCCL's tree: its own memory
constexpr std::size_t most_nic_hosts = 4096;
constexpr std::size_t most_nics = 256;

std::optional<double> link_speed(std::string_view words) {
  const auto value = leading_number<double>(words);
  return value && *value > 0 && *value < most_of_a_link ? value : std::nullopt;
}
/// Mbit/s to GB/s.
std::optional<double> from_megabits(std::string_view words) {
  const auto megabits = leading_number<double>(words);
  return megabits && *megabits > 0 && *megabits < most_of_a_link * 8000 ? std::optional(*megabits / 8000)
                                                                        : std::nullopt;
}

void keep_nic(NicMap& nics, std::string_view name, double bw, const MakeEvidence& evidence) {
  if (nics.size() < most_nics && !nics.contains(name)) nics.emplace(name, Nic{bw, evidence()});
}
HostNics* nics_of(std::string_view host, Links& links) {
  const auto found = links.nics.find(host);
  if (found != links.nics.end()) return &found->second;
  return links.nics.size() < most_nic_hosts ? &links.nics[std::string(host)] : nullptr;
}

/// "Pattern 4, crossNic 0, nChannels 16, bw 24.000000/24.000000, type NVL/PIX, sameChannels 1"; what ends before sameChannels was cut.
bool take_graph(std::string_view message, const MakeEvidence& evidence, Links& links) {
  const auto graph = topology::graph_of_line(message);
  const auto same = leading_number<int>(after(message, "sameChannels "));
  if (!graph || !same) return false;
  const auto is_speed = [](double speed) { return speed >= 0 && speed < most_of_a_link; };
  if (graph->pattern < 0 || graph->pattern > 16 || graph->channels < 0 || graph->channels > 1024 ||
      !is_speed(graph->intra_gigabytes) || !is_speed(graph->inter_gigabytes))
    return false;
  if (links.graphs.contains(graph->pattern)) return true;
  links.graphs.try_emplace(graph->pattern, Graph{.pattern = graph->pattern,
                                                 .channels = graph->channels,
                                                 .intra = graph->intra_gigabytes,
                                                 .inter = graph->inter_gigabytes,
                                                 .type_intra = graph->intra_type,
                                                 .type_inter = graph->inter_type,
                                                 .same_channels = *same != 0,
                                                 .evidence = evidence()});
  return true;
}

/// "=== System : maxBw 48.0 totalBw 370.8 ==="
bool take_system(std::string_view message, const MakeEvidence& evidence, Links& links) {
  std::string_view words = after(message, "totalBw ");
  if (words.empty()) words = after(message, "totalWidth ");
  const auto total = link_speed(words);
  if (!total || !message.ends_with("===")) return false;
  if (*total <= links.gpu) return true;
  links.gpu = *total;
  links.gpu_evidence = evidence();
  return true;
}

/// "+ NET[50.0] - NET/0-0 (0/9a3f/1/50.000000)"
bool take_node(std::string_view message, std::string_view host, const MakeEvidence& evidence, Links& links) {
  const std::string_view node = after(message, " - NET/");
  const auto open = node.find(" (");
  if (open == std::string_view::npos || !node.ends_with(')')) return false;
  const auto bw = link_speed(node.substr(node.rfind('/') + 1));
  HostNics* nics = bw ? nics_of(host, links) : nullptr;
  if (nics != nullptr) keep_nic(nics->nodes, node.substr(0, open), *bw, evidence);
  return bw.has_value();
}

/// "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x55 pciPath=... ar=1"
bool take_port(std::string_view message, std::string_view host, const MakeEvidence& evidence, Links& links) {
  const std::string_view words = after(message, "] ");
  const std::string_view rate = after(words, " speed=");
  const auto bw = rate.find(' ') == std::string_view::npos ? std::nullopt : from_megabits(rate);
  HostNics* nics = bw ? nics_of(host, links) : nullptr;
  if (nics != nullptr) keep_nic(nics->ports, words.substr(0, words.find('/')), *bw, evidence);
  return bw.has_value();
}

/// "NET/IB : Made virtual device [0] name=mlx5_0 speed=400000 ndevs=1". A virtual device of several cards (its name has a "+") adds no
/// bandwidth: its cards are counted one by one.
bool take_device(std::string_view message, std::string_view host, const MakeEvidence& evidence,
                 Links& links) {
  const std::string_view words = after(message, " name=");
  const std::string_view name = words.substr(0, words.find(' '));
  const auto bw = from_megabits(after(words, " speed="));
  if (!bw || after(words, " ndevs=").empty()) return false;
  HostNics* nics = name.find('+') == std::string_view::npos ? nics_of(host, links) : nullptr;
  if (nics != nullptr) keep_nic(nics->devices, name, *bw, evidence);
  return true;
}

/// "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer"
bool take_channels(std::string_view message, Links& links) {
  const auto channels = leading_number<int>(after(message, " collnet channels, "));
  if (!channels || *channels < 0 || *channels > 1024) return false;
  links.nvls_channels = std::max(links.nvls_channels, *channels);
  return true;
}

/// "CPU/0-0 (1/2/-1)": architecture, vendor, model. One that was cut has no bracket.
bool take_cpu(std::string_view message, Links& links) {
  const auto vendor = leading_number<int>(after(after(message, " ("), "/"));
  if (!vendor || !message.ends_with(')') || *vendor < 0 || *vendor > 16) return false;
  links.cpu_vendor = *vendor;
  return true;
}

struct GpuModel {
  std::string_view name;
  std::string_view form;  ///< also in the name; a GPU on a PCIe card has no or fewer NVLinks
  int capability;
  int links;       ///< NVLinks; 0: not told by the name
  double of_link;  ///< GB/s, as in NCCL 2.28, src/graph/topo.h
};
/// The first row that fits.
constexpr std::array<GpuModel, 31> gpu_models{
    {{"GB300", "", 100, 18, 40.1}, {"GB200", "", 100, 18, 40.1}, {"B300", "", 100, 18, 40.1},
     {"B200", "", 100, 18, 40.1},  {"B100", "", 100, 18, 40.1},  {"RTX PRO 6000", "", 120, 0, 0},
     {"GH200", "", 90, 0, 0},      {"H100 PCIe", "", 90, 0, 0},  {"H800 PCIe", "", 90, 0, 0},
     {"H100 NVL", "", 90, 0, 0},   {"H200 NVL", "", 90, 0, 0},   {"H100", "HBM3", 90, 18, 20.6},
     {"H200", "", 90, 18, 20.6},   {"H800", "", 90, 8, 20.6},    {"H100", "", 90, 0, 0},
     {"H20", "", 90, 18, 20.6},    {"A100", "SXM", 80, 12, 20},  {"A800", "SXM", 80, 8, 20},
     {"A100", "", 80, 0, 0},       {"A800", "", 80, 0, 0},       {"A30", "", 80, 0, 0},
     {"A10", "", 86, 0, 0},        {"A40", "", 86, 0, 0},        {"A6000", "", 86, 0, 0},
     {"L40", "", 89, 0, 0},        {"L4", "", 89, 0, 0},         {"T4", "", 75, 0, 0},
     {"V100", "SXM", 70, 6, 20},   {"V100", "", 70, 0, 0},       {"P100", "SXM", 60, 4, 18},
     {"P100", "", 60, 0, 0}}};

const GpuModel* model_of(std::string_view name) {
  const auto found = std::ranges::find_if(gpu_models, [&](const GpuModel& one) {
    return name.find(one.name) != std::string_view::npos && name.find(one.form) != std::string_view::npos;
  });
  return found == gpu_models.end() ? nullptr : &*found;
}

double all_of(const NicMap& nics) {
  double all = 0;
  for (const auto& [name, nic] : nics) all += nic.bw;
  return all;
}

}  // namespace

const NicMap& HostNics::best() const {
  if (!ports.empty()) return ports;
  if (!devices.empty()) return devices;
  return nodes.empty() ? files : nodes;
}

const HostNics* Links::least() const {
  const HostNics* least = nullptr;
  for (const auto& [host, one] : nics) {
    if (one.best().empty()) continue;
    if (least == nullptr || all_of(one.best()) < all_of(least->best())) least = &one;
  }
  return least;
}
double Links::nics_of_a_node() const {
  const HostNics* host = least();
  return host == nullptr ? 0 : all_of(host->best());
}
double Links::widest_nic() const {
  double widest = 0;
  const HostNics* host = least();
  if (host == nullptr) return 0;
  for (const auto& [name, nic] : host->best()) widest = std::max(widest, nic.bw);
  return widest;
}
std::size_t Links::nics_per_node() const {
  const HostNics* host = least();
  return host == nullptr ? 0 : host->best().size();
}

bool take_link(std::string_view message, std::string_view host, const MakeEvidence& evidence, Links& links) {
  while (!message.empty() && (message.back() == ' ' || message.back() == '\r')) message.remove_suffix(1);
  if (message.starts_with("Pattern ")) return take_graph(message, evidence, links);
  if (message.starts_with("=== System")) return take_system(message, evidence, links);
  if (message.starts_with("NET/IB: [")) return take_port(message, host, evidence, links);
  if (message.find("Made virtual device") != std::string_view::npos)
    return take_device(message, host, evidence, links);
  if (message.find(" - NET/") != std::string_view::npos) return take_node(message, host, evidence, links);
  if (message.starts_with("CPU/")) return take_cpu(message, links);
  return message.find(" collnet channels, ") != std::string_view::npos && take_channels(message, links);
}

double links_of_gpu(std::string_view name) {
  const GpuModel* model = model_of(name);
  return model == nullptr ? 0 : model->links * model->of_link;
}
int compute_capability(std::string_view name) {
  const GpuModel* model = model_of(name);
  return model == nullptr ? 0 : model->capability;
}

}  // namespace weft::report::bandwidth
