#include "weft-report/topology/topology.hpp"

#include <algorithm>

namespace weft::report::topology {

double PciLink::gigabytes() const {
  // What a lane carries behind encoding and headers, in 100 Mbit/s (NCCL 2.30, src/graph/topo.cc, kvDictPciGen).
  constexpr std::pair<double, int> lanes[] = {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}};
  if (!known()) return 0;
  const auto* const lane =
      std::ranges::find_if(lanes, [&](const auto& one) { return one.first >= gigatransfers; });
  return lane == std::end(lanes) ? 0 : lane->second * width / 80.0;
}

const PciStep* Device::slowest() const {
  const PciStep* least = nullptr;
  for (const PciStep& step : path) {
    if (step.link.known() && (least == nullptr || step.link.gigabytes() < least->link.gigabytes()))
      least = &step;
  }
  return least;
}

int Gpu::nvlinks() const {
  int all = 0;
  for (const NvLink& link : links) all += link.count;
  return all;
}

std::string_view name(Distance distance) {
  constexpr std::string_view names[] = {"same", "NVLink", "PIX", "PXB", "PHB", "NODE", "SYS", "unknown"};
  return names[static_cast<std::size_t>(distance)];
}

Distance distance(const Device& a, const Device& b) {
  if (a.path.empty() || b.path.empty()) return Distance::unknown;
  if (a.numa != b.numa) return Distance::sys;
  for (std::size_t i = 0; i < a.path.size(); ++i) {
    const auto common = std::ranges::find(b.path, a.path[i].bus, &PciStep::bus);
    if (common == b.path.end()) continue;
    const auto up = std::max<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(i), common - b.path.begin());
    return up == 0 ? Distance::same : up == 1 ? Distance::pix : Distance::pxb;
  }
  return Distance::phb;
}

}  // namespace weft::report::topology
