#include "weft-report/topology/host_view.hpp"

#include <algorithm>
#include <map>

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

std::string name_of(const Host& host, bool alone_in_file) {
  return alone_in_file ? host.file : text(host.file, " host ", host.hash);
}

HostView view_of(const Host& host, std::string name) {
  HostView view{.name = std::move(name),
                .from_file = true,
                .made_up = made_up_step(host) != nullptr || hides_switches(host)};
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

const PciStep* made_up_step(const Device& device) {
  const auto found = std::ranges::find_if(device.path, [](const PciStep& step) {
    return step.link.known() && step.link.width == 1 && step.link.gigatransfers <= 2.5;
  });
  return found == device.path.end() ? nullptr : &*found;
}

const PciStep* made_up_step(const Host& host) {
  for (const Gpu& gpu : host.gpus) {
    if (const PciStep* step = made_up_step(gpu)) return step;
  }
  for (const Nic& nic : host.nics) {
    if (const PciStep* step = made_up_step(nic)) return step;
  }
  return nullptr;
}

bool hides_switches(const Host& host) {
  const auto to_switch = [](const Gpu& gpu) {
    return gpu.c2c_gigabytes == 0 &&
           std::ranges::any_of(gpu.links, [](const NvLink& link) { return link.kind == NvTarget::nvswitch; });
  };
  return host.switches == 0 && host.gpus.size() >= 4 && !host.nics.empty() &&
         std::ranges::all_of(host.gpus, to_switch);
}

std::string host_name(const Host& host, const std::vector<Host>& all) {
  return name_of(host, std::ranges::count(all, host.file, &Host::file) < 2);
}

std::vector<HostView> host_views(const std::vector<Host>& hosts, const std::vector<Matrix>& matrices) {
  std::vector<HostView> views;
  std::map<std::string_view, int> in_file;
  for (const Host& host : hosts) ++in_file[host.file];
  for (const Host& host : hosts) views.push_back(view_of(host, name_of(host, in_file[host.file] == 1)));
  for (const Matrix& matrix : matrices) views.push_back(view_of(matrix));
  return views;
}

}  // namespace weft::report::topology
