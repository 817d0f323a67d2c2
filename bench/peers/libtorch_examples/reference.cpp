// Ranks as threads of one process, of which one runs at a time: rank 0 up to its exchange, then rank 1 up to its own, and so on. The last
// adds the gradients in the order of ranks and divides the sum. Torch's generator goes with the rank that runs: each has the numbers that
// it would have in a process of its own. REFERENCE_RANKS says how many.

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "trial.hpp"
#include "weft/torch/data_parallel.hpp"

// NOLINTNEXTLINE: of the example, with or without arguments
int program();
int program(int argc, const char** argv);
int program(int argc, char** argv);

namespace {

thread_local int this_rank = 0;
int ranks = 1;
int running = 0;
std::mutex mutex;
std::condition_variable turned;
std::vector<at::Tensor> generators;
std::vector<const torch::nn::Module*> waiting;

struct Over {};

/// The next one runs. Returns when this rank runs again.
void hand_on(std::unique_lock<std::mutex>& lock, bool comes_back) {
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  generators[static_cast<std::size_t>(this_rank)] = generator.get_state();
  running = (this_rank + 1) % ranks;
  turned.notify_all();
  if (!comes_back) return;
  turned.wait(lock, [] { return running == this_rank; });
  at::Generator(generator).set_state(generators[static_cast<std::size_t>(this_rank)]);
}

void average(bool gradients) {
  const torch::NoGradGuard no_graph;
  const auto all = [](auto&& values_of) {
    std::vector<std::vector<at::Tensor>> values;
    for (const torch::nn::Module* one : waiting) values.push_back(values_of(*one));
    return values;
  };
  const auto parameters = all([](const auto& module) { return module.parameters(); });
  for (std::size_t i = 0; i < parameters[0].size(); ++i) {
    at::Tensor mean = gradients ? parameters[0][i].grad().clone() : parameters[0][i].data().clone();
    for (std::size_t rank = 1; gradients && rank < parameters.size(); ++rank)
      mean.add_(parameters[rank][i].grad());
    if (gradients) mean.div_(static_cast<double>(ranks));
    for (const auto& of_rank : parameters) (gradients ? of_rank[i].grad() : of_rank[i].data()).copy_(mean);
  }
  const auto buffers = all([](const auto& module) { return module.buffers(); });
  for (std::size_t i = 0; i < buffers[0].size(); ++i) {
    for (const auto& of_rank : buffers) of_rank[i].data().copy_(buffers[0][i].data());
  }
}

void run(int rank) {
  this_rank = rank;
  std::unique_lock lock(mutex);
  turned.wait(lock, [] { return running == this_rank; });
  at::Generator(at::detail::getDefaultCPUGenerator()).set_state(generators[static_cast<std::size_t>(rank)]);
  try {
#if defined(PROGRAM_CONST_ARGUMENTS)
    const char* arguments[] = {"program", nullptr};
    program(1, arguments);
#elif defined(PROGRAM_ARGUMENTS)
    char name[] = "program";
    char* arguments[] = {name, nullptr};
    program(1, arguments);
#else
    program();
#endif
  } catch (const Over&) {
  }
  hand_on(lock, false);
}

}  // namespace

namespace weft {

int reference_rank() {
  return this_rank;
}
int reference_ranks() {
  return ranks;
}

// The lock is held by the thread that runs.
void reference_exchange(const ::torch::nn::Module& module, bool gradients) {
  waiting.push_back(&module);
  if (this_rank == ranks - 1) {
    average(gradients);
    waiting.clear();
  }
  std::unique_lock lock(mutex, std::adopt_lock);
  hand_on(lock, true);
  lock.release();
}

}  // namespace weft

void trial::over() {
  throw Over();
}
int trial::rank() {
  return this_rank;
}

int main() {
  ranks = weft::of_environment("REFERENCE_RANKS", 1);
  const at::Tensor first = at::detail::getDefaultCPUGenerator().get_state();
  for (int rank = 0; rank < ranks; ++rank) generators.push_back(first.clone());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& one : threads) one.join();
}
