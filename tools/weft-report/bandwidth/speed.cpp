#include "weft-report/bandwidth/speed.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "weft/core/text.hpp"

namespace weft::report::bandwidth {
namespace {

constexpr double slowest_nvlinks = 64;    // a GPU's PCIe link of generation 5 has 48
constexpr double least_drop = 0.8;        // of the fastest smaller size
constexpr double least_drop_alone = 0.7;  // where one measurement stands for the size
constexpr double recovered = 0.95;
constexpr std::int64_t smallest_judged = 4096;  // below it times are latency, and vary
constexpr std::size_t most_falls = 32;

double within_node(const std::string& op, const Shape& shape, double gpu) {
  const auto n = static_cast<double>(shape.ranks);
  const auto local = n / static_cast<double>(shape.nodes);
  if (op != "all_reduce" || !shape.switch_sums) return gpu;
  return std::max(gpu, gpu * (2 * (n - 1) / n) / (1 + 1 / local));
}

double between_nodes(const std::string& op, const Shape& shape, double nics) {
  const auto n = static_cast<double>(shape.ranks);
  const auto nodes = static_cast<double>(shape.nodes);
  if (op == "all_reduce") return nics * nodes * (n - 1) / (n * (nodes - 1));
  if (op != "alltoall") return nics;
  const double local = n / nodes;
  return nics * (n - 1) / (local * (n - local));
}

double planned_ring(const Shape& shape, const Links& links) {
  const auto ring = links.graphs.find(4);
  if (ring == links.graphs.end()) return 0;
  const Graph& graph = ring->second;
  const double channel = shape.nodes > 1 ? std::min(graph.intra, graph.inter) : graph.intra;
  return graph.channels * channel;
}

bool is_nvlink(const Links& links, double gpu) {
  const auto ring = links.graphs.find(4);
  if (ring != links.graphs.end()) return ring->second.type_intra.starts_with("NV");
  return gpu > slowest_nvlinks;
}

/// Bandwidths of one size in GB/s, of repeated measurements the best; 0: not measured.
struct Point {
  double out = 0;
  double in = 0;
  int line = 0;
  double best() const { return std::max(out, in); }
};

std::map<std::int64_t, Point> points_of(const Table& table) {
  std::map<std::int64_t, Point> points;
  const auto speed = [](const Row& row, const Measured& one) {
    return static_cast<double>(row.bytes) / one.microseconds / 1000;
  };
  for (const Row& row : table.rows) {
    Point& point = points[row.bytes];
    if (row.out_of_place) point.out = std::max(point.out, speed(row, *row.out_of_place));
    if (row.in_place) point.in = std::max(point.in, speed(row, *row.in_place));
    if (point.line == 0) point.line = row.line;
  }
  return points;
}

/// Out of place and in place have to agree: a single measurement may have been disturbed.
bool falls(const Point& point, const Point& fastest) {
  if (point.out == 0 || point.in == 0) return point.best() < least_drop_alone * fastest.best();
  return point.out < least_drop * fastest.out && point.in < least_drop * fastest.in;
}

std::vector<FallOff> falls_of(const std::map<std::int64_t, Point>& points) {
  std::vector<FallOff> all;
  Point fastest;
  std::int64_t fastest_bytes = 0;
  for (auto at = points.begin(); at != points.end(); ++at) {
    const auto& [bytes, point] = *at;
    if (bytes >= smallest_judged && falls(point, fastest) && all.size() < most_falls) {
      const bool back = std::any_of(at, points.end(), [&](const auto& later) {
        return later.second.best() >= recovered * fastest.best();
      });
      all.push_back({.bytes = bytes,
                     .algbw = point.best(),
                     .before_bytes = fastest_bytes,
                     .before = fastest.best(),
                     .recovers = back,
                     .line = point.line});
    }
    if (point.best() > fastest.best()) fastest_bytes = bytes;
    fastest.out = std::max(fastest.out, point.out);
    fastest.in = std::max(fastest.in, point.in);
  }
  return all;
}

}  // namespace

std::string_view name(Limit limit) {
  switch (limit) {
    case Limit::nvlink:
      return "NVLink";
    case Limit::pcie:
      return "PCIe";
    case Limit::network:
      return "network ports";
    case Limit::search:
      return "NCCL's search";
    case Limit::unknown:
      break;
  }
  return "not known";
}

std::string size_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return text(bytes, ' ', units[unit]);
}

Bound bound_of(const std::string& op, const Shape& shape, const Links& links, const std::string& device) {
  if (shape.ranks < 2 || shape.nodes < 1 || bus_factor(op, shape.ranks) == 0 || op == "hypercube") return {};
  Bound bound{.planned = planned_ring(shape, links)};
  const double gpu = links.gpu > 0 ? links.gpu : links_of_gpu(device);
  const double nics = shape.nodes > 1 ? links.nics_of_a_node() : 0;
  double least = std::numeric_limits<double>::infinity();
  if (gpu > 0 && shape.ranks > shape.nodes) {
    least = within_node(op, shape, gpu);
    bound.limit = is_nvlink(links, gpu) ? Limit::nvlink : Limit::pcie;
  }
  if (shape.nodes > 1) {
    const double wire = between_nodes(op, shape, nics);
    if (nics <= 0) {
      least = std::numeric_limits<double>::infinity();  // the network bounds, and nothing is known of it
    } else if (wire < least) {
      least = wire;
      bound.limit = Limit::network;
    }
  }
  if (least < std::numeric_limits<double>::infinity()) {
    bound.busbw = least;
    return bound;
  }
  bound.busbw = op == "alltoall" && shape.nodes > 1 ? 0 : bound.planned;
  bound.limit = bound.busbw > 0 ? Limit::search : Limit::unknown;
  return bound;
}

Speed speed_of(const Table& table, const std::string& op, const Shape& shape, const Links& links) {
  Speed speed;
  const Row* largest = table.largest();
  if (largest == nullptr) return speed;
  if (table.on_gpus()) speed.bound = bound_of(op, shape, links, table.device);
  speed.bytes = largest->bytes;
  for (const Row& row : table.rows) {
    const double time =
        std::min(row.out_of_place ? row.out_of_place->microseconds : row.in_place->microseconds,
                 row.in_place ? row.in_place->microseconds : row.out_of_place->microseconds);
    if (row.bytes == speed.bytes) speed.busbw = std::max(speed.busbw, row.best().busbw);
    if (row.bytes > 0 && (speed.floor_us == 0 || time < speed.floor_us)) {
      speed.floor_us = time;
      speed.floor_bytes = row.bytes;
    }
    for (const auto& one : {row.out_of_place, row.in_place}) {
      if (one && one->wrong > 0) speed.wrong += std::min(one->wrong, std::int64_t{1} << 40);
    }
  }
  if (speed.bound.busbw > 0) speed.fraction = speed.busbw / speed.bound.busbw;
  speed.falls = falls_of(points_of(table));
  return speed;
}

}  // namespace weft::report::bandwidth
