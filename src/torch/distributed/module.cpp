// The Python module weft.torch._C.

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include "compression/codecs/codec_table.hpp"
#include "torch/distributed/backend.hpp"
#include "torch/distributed/ddp/model.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/progress.hpp"
#include "weft/core/version.hpp"

namespace {

namespace py = pybind11;
using weft::distributed::Compression;
using weft::distributed::CompressionOptions;
using weft::distributed::KeptTensor;
using weft::distributed::TorchBackend;

c10::intrusive_ptr<TorchBackend> connected(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                           std::chrono::duration<double> timeout, std::string name,
                                           std::vector<std::int64_t> ranks) {
  return TorchBackend::connect(store, rank, size,
                               std::chrono::duration_cast<std::chrono::milliseconds>(timeout),
                               {std::move(name), std::move(ranks)});
}

/// What weft throws, as users of torch catch it.
template <class Call>
auto translated(const Call& call) {
  try {
    return call();
  } catch (...) {
    std::rethrow_exception(weft::distributed::as_torch_error(std::current_exception(), ""));
  }
}

/// From the keywords that python/weft/torch/_compression.py has checked.
CompressionOptions options_of(const std::string& codec, const py::dict& given) {
  CompressionOptions options{.codec = codec};
  const auto take = [&](const char* name, auto& into) {
    if (given.contains(name)) into = given[name].template cast<std::decay_t<decltype(into)>>();
  };
  std::string residual = "nothing", rounding, form;
  take("residual", residual);
  take("rounding", rounding);
  take("form", form);
  take("fraction", options.fraction);
  take("seed", options.seed);
  take("start_step", options.hook.start_step);
  take("rank", options.power_sgd.rank);
  take("start_step", options.power_sgd.start_step);
  take("min_rate", options.power_sgd.min_rate);
  take("warm_start", options.power_sgd.warm_start);
  take("seed", options.power_sgd.seed);
  take("whole", options.power_sgd.whole);
  if (rounding == "stochastic") options.rounding = weft::Rounding::stochastic;
  if (form == "alternating") options.power_sgd.form = weft::LowRankForm::alternating;
  options.hook.residual = options.power_sgd.residual = weft::distributed::kept_as_named(residual);
  return options;
}

/// By name: what stands behind its colon, or nothing; whether it has a seed; whether it is a cast.
py::dict codecs() {
  py::dict all;
  for (const weft::detail::CodecRow& row : weft::detail::codec_table()) {
    using Parameter = weft::detail::CodecParameter;
    const char* const parameter = row.parameter == Parameter::rounding   ? "rounding"
                                  : row.parameter == Parameter::fraction ? "fraction"
                                                                         : "";
    all[row.name] = py::make_tuple(parameter, row.has_seed, row.is_cast);
  }
  return all;
}

std::shared_ptr<Compression> compression(TorchBackend& backend, const std::string& codec,
                                         const py::dict& given, const Compression::Parameters& parameters) {
  return translated([&] {
    return std::make_shared<Compression>(backend.shared_group(), options_of(codec, given), parameters);
  });
}

/// DDP takes an object of Python from a hook of Python.
c10::IValue as_object(c10::ivalue::Future& done) {
  const at::Tensor tensor = done.value().toTensor();
  const py::gil_scoped_acquire python;
  return torch::jit::toIValue(py::cast(tensor), c10::PyObjectType::get());
}

std::shared_ptr<torch::jit::PythonFutureWrapper> reduce(Compression& compression,
                                                        const c10d::GradBucket& bucket) {
  const py::gil_scoped_release without_python;
  return std::make_shared<torch::jit::PythonFutureWrapper>(
      compression.reduce(bucket)->then(as_object, c10::PyObjectType::get()));
}

py::dict state(Compression& compression) {
  std::vector<KeptTensor> all;
  {
    const py::gil_scoped_release without_python;
    all = compression.state();
  }
  const auto tensor = [](std::vector<float>& values) {
    return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}).clone();
  };
  py::dict tensors;
  for (KeptTensor& one : all) {
    tensors[py::str(one.tensor.name)] = py::dict(
        py::arg("shape") = one.tensor.shape, py::arg("rank") = one.tensor.rank, py::arg("steps") = one.steps,
        py::arg("left_bases") = one.left_bases, py::arg("basis") = tensor(one.tensor.basis),
        py::arg("residual") = tensor(one.tensor.residual));
  }
  return tensors;
}

void load_state(Compression& compression, const py::dict& tensors) {
  const auto floats = [](const py::handle& value) {
    const at::Tensor tensor = value.cast<at::Tensor>().to(at::kCPU, at::kFloat).contiguous();
    const auto* begin = tensor.const_data_ptr<float>();
    return std::vector<float>(begin, begin + tensor.numel());
  };
  std::vector<KeptTensor> all;
  for (const auto& [name, one] : tensors) {
    all.push_back({{name.cast<std::string>(), one["shape"].cast<std::vector<std::int64_t>>(),
                    one["rank"].cast<int>(), floats(one["basis"]), floats(one["residual"])},
                   one["steps"].cast<std::int64_t>(),
                   one["left_bases"].cast<bool>()});
  }
  const py::gil_scoped_release without_python;
  compression.load_state(std::move(all));
}

/// @param link (bytes, seconds); empty: buckets of `bytes`
std::vector<std::int64_t> bucket_sizes(std::vector<std::int64_t> counts, int element_bytes,
                                       std::vector<double> ready,
                                       const std::vector<std::pair<double, double>>& link,
                                       std::size_t bytes) {
  const auto dtype = element_bytes == 2   ? weft::DataType::f16
                     : element_bytes == 4 ? weft::DataType::f32
                                          : weft::DataType::f64;
  const weft::distributed::GradientTimes gradients{dtype, std::move(counts), std::move(ready)};
  return translated([&] {
    if (link.empty()) return weft::distributed::bucket_sizes(gradients, bytes);
    std::vector<weft::LinkModel::Sample> samples;
    for (const auto& [size, seconds] : link) samples.push_back({size, seconds});
    return weft::distributed::bucket_sizes(gradients, samples);
  });
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  py::module_::import("torch.distributed");  // whose classes are the bases of those here
  py::class_<TorchBackend, c10d::Backend, c10::intrusive_ptr<TorchBackend>>(
      module, "Backend", "A process group's backend; torch.distributed calls it.")
      .def_property_readonly(
          "transport", [](TorchBackend& backend) { return backend.group().backend(); },
          "What carries the data, such as 'host (shared memory)'.")
      .def_property_readonly(
          "operations", [](TorchBackend& backend) { return backend.group().operations(); },
          "How many collectives and messages this rank has started in the group.");
  py::class_<Compression, std::shared_ptr<Compression>>(module, "Compression",
                                                        "Reduces the buckets of one DDP model compressed.")
      .def("reduce", &reduce, py::arg("bucket"),
           "A future of the bucket's tensor, which then holds the means.")
      .def("state", &state, "What PowerSGD keeps, by parameter.")
      .def("load_state", &load_state, py::arg("tensors"), "Puts it back.");
  module.def("codecs", &codecs);
  module.def("compression", &compression, py::arg("backend"), py::arg("codec"), py::arg("options"),
             py::arg("parameters"), "For weft.torch.compress().");
  module.def("bucket_sizes", &bucket_sizes, py::arg("counts"), py::arg("element_bytes"),
             py::arg("ready_seconds"), py::arg("link"), py::arg("bytes"), "For weft.torch.plan_buckets().");
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
