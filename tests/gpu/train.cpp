// One of several ranks that train gpt-ref where WEFT_DEVICE says; rank 0 prints a line of JSON: losses, a
// hash of all parameters, the median step. usage: gpu_train TEXT STEPS [TRACE]

#include <algorithm>
#include <chrono>
#include <iostream>

#include "gpt/trainer/trainer.hpp"

namespace {

using namespace weft;

std::uint64_t hash(const std::vector<float>& values) {  // FNV-1a
  std::uint64_t result = 0xcbf29ce484222325ULL;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(float); ++i)
    result = (result ^ bytes[i]) * 0x100000001b3ULL;
  return result;
}

void train(const std::string& path, std::int64_t steps, const char* trace_file) {
  const auto& spec = examples::model_spec("gpt-ref");
  const auto text = examples::Text::read(path, spec.sequence_bytes());
  const auto world = World::from_environment();
  const auto trace = trace_file == nullptr ? nullptr : std::make_shared<Trace>(world.rank());
  Communicator comm = connect(world, {.trace = trace});
  examples::Trainer<float> trainer(comm, spec, text,
                                   {.share = {comm.rank(), comm.size()}, .steps = steps, .trace = trace});
  std::vector<double> losses;
  std::vector<double> seconds;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    losses.push_back(trainer.step());
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  const std::uint64_t bits = hash(trainer.parameters());
  if (comm.rank() != 0) return;
  if (trace) trace->write(trace_file);
  std::ranges::sort(seconds);
  std::cout.precision(9);
  std::cout << "{\"figure\": \"gpt-ref\", \"device\": \"" << comm.device() << "\", \"ranks\": " << comm.size()
            << ", \"step_ms\": " << seconds[seconds.size() / 2] * 1e3
            << ", \"exposed_ms\": " << trainer.reducer().exposed_seconds() * 1e3 / static_cast<double>(steps)
            << ", \"hash\": \"" << std::hex << bits << std::dec << "\", \"losses\": [";
  for (std::size_t i = 0; i < losses.size(); ++i) std::cout << (i == 0 ? "" : ", ") << losses[i];
  std::cout << "]}\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: gpu_train TEXT STEPS [TRACE]\n";
    return 42;
  }
  try {
    train(argv[1], std::stoll(argv[2]), argc > 3 ? argv[3] : nullptr);
  } catch (const weft::Error& error) {
    std::cerr << error.what() << '\n';
    return weft::exit_code(error.kind());
  }
}
