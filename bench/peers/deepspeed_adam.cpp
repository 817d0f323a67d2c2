// The step of a CPU optimizer as DeepSpeed makes it, in four passes over memory, behind the C interface that
// bench_optimizer loads: bf16 gradients become f32, are multiplied by 1 / loss scale, its own kernel brings
// f32 parameters on, and those become bf16. The passes around the kernel are loops that the compiler makes
// vectors of; in DeepSpeed they are PyTorch's copy_ and mul_.
//
// bench/peers/deepspeed_adam.sh compiles it against DeepSpeed's sources, which are not here.

#include <cstring>

#include "cpu_adam.h"

extern "C" {

/// One step of `count` parameters by AdamW with its defaults.
/// @param wide scratch for the gradients as f32
void weft_peer_adamw(std::uint64_t step, float rate, float inverse_scale, std::int64_t count,
                     const std::uint16_t* gradient, float* wide, float* master, float* first, float* second,
                     std::uint16_t* parameters) {
  constexpr int id = 0;
  static const int made = create_adam_optimizer(id, 1e-3F, 0.9F, 0.999F, 1e-8F, 0.01F, true, false);
  if (made != 0) throw std::runtime_error("DeepSpeed made no optimizer");
  const auto* bits = gradient;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t word = std::uint32_t{bits[i]} << 16;
    std::memcpy(wide + i, &word, sizeof(word));
  }
  for (std::int64_t i = 0; i < count; ++i) wide[i] *= inverse_scale;
  torch::Tensor p(master, count), g(wide, count), m(first, count), v(second, count);
  ds_adam_step(id, step, rate, 0.9F, 0.999F, 1e-8F, 0.01F, true, p, g, m, v);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t word;
    std::memcpy(&word, master + i, sizeof(word));
    const std::uint32_t rounded = (word + 0x7fffU + ((word >> 16) & 1U)) >> 16;
    parameters[i] = static_cast<std::uint16_t>((word & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : rounded);
  }
}
}
