// The Python module weft.torch._C.

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "torch/distributed/backend.hpp"
#include "torch/distributed/progress.hpp"
#include "weft/core/version.hpp"

namespace {

using weft::distributed::TorchBackend;

c10::intrusive_ptr<TorchBackend> connected(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                           std::chrono::duration<double> timeout, std::string name,
                                           std::vector<std::int64_t> ranks) {
  return TorchBackend::connect(store, rank, size,
                               std::chrono::duration_cast<std::chrono::milliseconds>(timeout),
                               {std::move(name), std::move(ranks)});
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  namespace py = pybind11;
  py::module_::import("torch.distributed");  // whose classes are the bases of those here
  py::class_<TorchBackend, c10d::Backend, c10::intrusive_ptr<TorchBackend>>(
      module, "Backend", "A process group's backend; torch.distributed calls it.")
      .def_property_readonly(
          "transport", [](TorchBackend& backend) { return backend.group().backend(); },
          "What carries the data, such as 'host (shared memory)'.")
      .def_property_readonly(
          "operations", [](TorchBackend& backend) { return backend.group().operations(); },
          "How many collectives and messages this rank has started in the group.");
  module.def("connect", &connected, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
             py::arg("name"), py::arg("ranks"), py::call_guard<py::gil_scoped_release>(),
             "The backend of a group whose ranks share the store. Collective; blocks until all are there.");
  module.def("stop", &weft::distributed::Progress::stop_all, py::call_guard<py::gil_scoped_release>(),
             "Ends the threads; at the end of the program.");
  module.def("version", &weft::library_version, "The version of weft.");
  module.def("built_with", &weft::built_with, "The transports and libraries of this build.");
  module.attr("torch_version") = WEFT_TORCH_VERSION;
  module.attr("cuda_tensors") = weft::distributed::lanes_of_this_build();
}
