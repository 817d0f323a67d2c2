#pragma once
// Random numbers as pure functions of a seed and a position.
//
// There is no generator to carry along: any rank computes any element on its own, in any order, and gets the
// same bits on every machine. The normal deviate is a sum of twelve uniforms (Irwin-Hall): its tails end at
// 6, which initial weights do not notice, and it needs no library function whose last bit differs between
// systems.
//
//   std::uint64_t word = random_word(seed, step, index);
//   double weight = 0.02 * random_normal(seed, parameter, element);

#include <cstdint>

namespace weft::examples {

/// A bijection of 64-bit words that leaves no visible pattern (the finalizer of splitmix64).
constexpr std::uint64_t scramble(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15U;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31);
}

constexpr std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t position) {
  return scramble(scramble(scramble(seed) ^ stream) ^ position);
}

/// Mean 0, variance 1.
constexpr double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t position) {
  std::uint64_t sum = 0;
  for (std::uint64_t part = 0; part < 3; ++part) {
    const std::uint64_t word = random_word(seed, stream, 3 * position + part);
    sum += (word & 0xffffU) + ((word >> 16) & 0xffffU) + ((word >> 32) & 0xffffU) + (word >> 48);
  }
  return static_cast<double>(sum) / 65535.0 - 6.0;
}

}  // namespace weft::examples
