#pragma once
// What the compared trainings share: a text, a small model, and the distance between two results.

#include <cmath>
#include <string>
#include <vector>

#include "weft-scaling/gpt/data/text.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"

namespace weft::examples {

/// 20,000 bytes with the structure of text: words of a small vocabulary, so that there is something to learn.
inline Text make_text(const ModelSpec& spec) {
  const std::vector<std::string> words{"the ", "gradient ", "of ", "every ",  "rank ",
                                       "is ",  "summed ",   "in ", "order.\n"};
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t state = 1; bytes.size() < 20'000; state = state * 1664525 + 1013904223) {
    for (const char letter : words[(state >> 16) % words.size()])
      bytes.push_back(static_cast<std::uint8_t>(letter));
  }
  return Text(std::move(bytes), spec.sequence_bytes(), "a text made for tests");
}

inline ModelSpec tiny(OptimizerKind optimizer) {
  ModelSpec spec = model_spec("gpt-tiny");
  spec.optimizer.kind = optimizer;
  if (optimizer == OptimizerKind::sgd) spec.optimizer.learning_rate = 0.1;
  return spec;
}

/// L2 norm of the difference over that of `b`.
template <class Real>
double relative_error(const std::vector<Real>& a, const std::vector<Real>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace weft::examples
