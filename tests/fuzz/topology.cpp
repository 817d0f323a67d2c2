// Topologies and graphs of NCCL, and what nvidia-smi, ibv_devinfo, ulimit and lspci print.

#include "weft-report/topology/topology.hpp"

#include <algorithm>

#include "fuzz/expect_refused.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft-report/topology/graph.hpp"

namespace {

using namespace weft;
namespace topology = report::topology;

void expect_plausible(const topology::Host& host) {
  for (const topology::Gpu& gpu : host.gpus) {
    test::expect(gpu.evidence.line > 0 && gpu.nvlinks() >= 0 && gpu.dev >= -1,
                 "a GPU has a line and no negative numbers");
    for (const topology::Nic& nic : host.nics) {
      test::expect(topology::distance(gpu, nic) == topology::distance(nic, gpu), "a way back is as long");
      test::expect(nic.megabits >= 0, "a speed is not negative");
    }
    if (const topology::PciStep* step = gpu.slowest())
      test::expect(step->link.known(), "a slowest link is known");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content = test::as_text(data, size);
  test::taken_or_refused([&] {
    for (const topology::Host& host : topology::read_system(content, "topo.xml")) expect_plausible(host);
  });
  test::taken_or_refused([&] {
    for (const topology::Graph& graph : topology::read_graphs(content, "graph.xml"))
      test::expect(graph.alike(graph) && graph.channels >= 0, "a graph is like itself");
  });
  report::nccl::JobLog log;
  (void)log.add(content, "first");
  (void)log.add(content, "second");
  const report::nccl::Job& job = log.job();
  for (const topology::Matrix& matrix : job.tools.matrices) {
    for (const topology::MatrixDevice& device : matrix.devices)
      test::expect(device.links.empty() || device.links.size() == matrix.devices.size(), "a row is whole");
  }
  for (const topology::Port& port : job.tools.ports)
    test::expect(port.megabits() >= 0 && !port.hca.empty(), "a port has a name and no negative speed");
  for (const report::Finding& one : report::nccl::examine(job))
    test::expect(!one.evidence.empty(), "a finding has evidence");
  return 0;
}
