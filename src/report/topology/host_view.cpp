#include "report/topology/host_view.hpp"

#include <algorithm>

#include "weft/core/text.hpp"

namespace weft::report::topology {
namespace {

void keep_nearest(NearestOther& one, const std::string& other, Distance distance) {
  if (!one.other.empty() && distance >= one.distance) return;
  one.other = other;
  one.distance = distance;
}

/// Both ends learn of each other.
void join(GpuView& gpu, NearestOther& nic, Distance distance) {
  keep_nearest(gpu, nic.name, distance);
  keep_nearest(nic, gpu.name, distance);
}

NearestOther& nic_named(HostView& view, const std::string& name, const Evidence& evidence) {
  const auto known = std::ranges::find(view.nics, name, &NearestOther::name);
  if (known != view.nics.end()) return *known;
  return view.nics.emplace_back(NearestOther{.name = name, .evidence = evidence});
}

HostView view_of(const Host& host, const std::vector<Host>& all) {
  HostView view{.name = host_name(host, all), .from_file = true};
  for (const Gpu& gpu : host.gpus) {
    GpuView one;
    one.name = text("GPU", gpu.dev);
    one.evidence = gpu.evidence;
    one.kind = gpu.model.empty() ? text("sm", gpu.sm) : gpu.model;
    one.nvlinks = gpu.nvlinks();
    one.numa = gpu.numa;
    view.coherent = view.coherent || gpu.c2c_gigabytes > 0;
    view.gpus.push_back(one);
  }
  for (const Nic& nic : host.nics) {
    if (nic.path.empty()) continue;
    NearestOther& one = nic_named(view, nic.name, nic.evidence);
    one.direct = nic.gdr != 0;
    for (std::size_t i = 0; i < view.gpus.size(); ++i) join(view.gpus[i], one, distance(host.gpus[i], nic));
  }
  return view;
}

HostView view_of(const Matrix& matrix) {
  HostView view{.name = matrix.host.empty() ? matrix.evidence.file : matrix.host};
  std::vector<std::size_t> places;  // of the GPUs, in the table
  for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
    const MatrixDevice& device = matrix.devices[i];
    if (!device.gpu || device.links.empty()) continue;
    GpuView one;
    one.name = device.name;
    one.evidence = device.evidence;
    one.numa = device.numa;
    for (const MatrixLink& link : device.links) one.nvlinks += link.nvlinks;
    places.push_back(i);
    view.gpus.push_back(one);
  }
  for (std::size_t j = 0; j < matrix.devices.size(); ++j) {
    if (matrix.devices[j].gpu) continue;
    const bool no_row = matrix.devices[j].links.empty();
    NearestOther& nic =
        nic_named(view, matrix.devices[j].device, no_row ? matrix.evidence : matrix.devices[j].evidence);
    for (std::size_t g = 0; g < view.gpus.size(); ++g)
      join(view.gpus[g], nic, matrix.devices[places[g]].links[j].distance);
  }
  return view;
}

}  // namespace

std::string host_name(const Host& host, const std::vector<Host>& all) {
  const bool alone = std::ranges::count(all, host.file, &Host::file) < 2;
  return alone ? host.file : text(host.file, " host ", host.hash);
}

std::vector<HostView> host_views(const std::vector<Host>& hosts, const std::vector<Matrix>& matrices) {
  std::vector<HostView> views;
  for (const Host& host : hosts) views.push_back(view_of(host, hosts));
  for (const Matrix& matrix : matrices) views.push_back(view_of(matrix));
  return views;
}

}  // namespace weft::report::topology
