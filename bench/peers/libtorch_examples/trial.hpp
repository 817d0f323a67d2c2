#pragma once
// What ../libtorch_examples.sh puts into each program after a training step: the end of a trial, the time of a step, and the parameters.
//   TRIAL_STEPS  steps, of which the first fifth is not timed; then the program ends
//   TRIAL_DUMP   where a rank writes its parameters: FILE.RANK
// The first of the ranks that a process has prints "median SECONDS", that of its timed steps.

#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace trial {

using Clock = std::chrono::steady_clock;

/// Ends the program. The reference ends a rank of it instead.
[[noreturn]] void over();
int rank();

inline void dump(const std::vector<const torch::nn::Module*>& modules) {
  const char* file = std::getenv("TRIAL_DUMP");
  if (file == nullptr) return;
  std::ofstream out(std::string(file) + "." + std::to_string(rank()), std::ios::binary);
  const auto write = [&](at::Tensor tensor) {
    tensor = tensor.detach().contiguous();
    out.write(static_cast<const char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  };
  for (const torch::nn::Module* module : modules) {
    for (const at::Tensor& one : module->parameters()) write(one);
    for (const at::Tensor& one : module->buffers()) write(one);
  }
}

template <class... Modules>
void stepped(const Modules&... modules) {
  thread_local std::vector<Clock::time_point> times;
  times.push_back(Clock::now());
  const std::size_t steps = std::strtoul(std::getenv("TRIAL_STEPS"), nullptr, 10);
  if (times.size() < steps) return;
  dump({&modules...});
  std::vector<double> seconds;
  for (std::size_t i = std::max<std::size_t>(1, steps / 5); i < steps; ++i)
    seconds.push_back(std::chrono::duration<double>(times[i] - times[i - 1]).count());
  std::sort(seconds.begin(), seconds.end());
  if (rank() == 0 && !seconds.empty()) std::printf("\nmedian %.9f\n", seconds[seconds.size() / 2]);
  over();
}

#ifndef STAND_IN_REFERENCE
inline void over() {
  std::fflush(nullptr);
  std::exit(0);
}
inline int rank() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? 0 : std::atoi(rank);
}
#endif

}  // namespace trial
