#include "torch/distributed/signals.hpp"

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <chrono>

#include "core/streams/interruption.hpp"

namespace weft::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_looks{200};

// Python's main thread is the process's: that which began it, or the one that has forked.
bool is_main_thread() {
  return gettid() == getpid();
}

}  // namespace

void run_signal_handlers() {
  if (!is_main_thread()) return;
  static Clock::time_point last{};
  const Clock::time_point now = Clock::now();
  if (now - last < between_looks) return;
  last = now;
  if (Py_IsInitialized() == 0) return;
  const pybind11::gil_scoped_acquire python;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

std::string exception_in_flight() {
  if (Py_IsInitialized() == 0) return {};
  const pybind11::gil_scoped_acquire python;
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_GetExcInfo(&type, &value, &trace);
  const auto owned = [](PyObject* object) { return pybind11::reinterpret_steal<pybind11::object>(object); };
  const pybind11::object all[] = {owned(type), owned(value), owned(trace)};
  if (!all[1] || all[1].is_none()) return {};
  const auto name = pybind11::str(pybind11::type::of(all[1]).attr("__name__")).cast<std::string>();
  try {
    const auto words = pybind11::str(all[1]).cast<std::string>();
    return words.empty() ? name : name + ": " + words.substr(0, words.find('\n'));
  } catch (const pybind11::error_already_set&) {  // its __str__ raises
    return name;
  }
}

RunsSignalHandlers::RunsSignalHandlers() : before_(detail::Interruption::set(&run_signal_handlers)) {}

RunsSignalHandlers::~RunsSignalHandlers() {
  detail::Interruption::set(before_);
}

}  // namespace weft::distributed
