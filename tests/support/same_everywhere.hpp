#pragma once
// A training of rules that need whole tensors, and whether it has the same bits in every stage, for any number of
// ranks and any bucket size.

#include <gtest/gtest.h>

#include "support/under_tsan.hpp"
#include "support/zero_training.hpp"
#include "zero/tensors/newton_schulz.hpp"

namespace weft::test {

/// Why Muon cannot be tested here; none where it can.
inline std::optional<std::string> why_no_blas() {
  try {
    detail::load_blas();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

inline std::vector<ParamId> param_ids(std::initializer_list<int> numbers) {
  std::vector<ParamId> result;
  for (const int number : numbers) result.push_back(ParamId{number});
  return result;
}

/// Gradients are the exact means of four parts, so they do not depend on the number of ranks.
inline ZeroTraining exact_training(const zero::Optimizer& optimizer) {
  ZeroTraining job{.ranks = 1, .steps = 5, .optimizer = optimizer, .has_matrices = true};
  job.coarse = true;
  job.parts = 4;
  const double rate = std::visit([](const auto& rule) { return rule.learning_rate; }, optimizer);
  job.rates = {rate, 0.5 * rate, 2 * rate};
  return job;
}

inline void expect_the_same_everywhere(ZeroTraining job) {
  job.sharding.stage = 0;
  const ZeroTraining::Result reference = job.run();
  for (const int ranks : few_under_tsan<int>({4, 2, 1}, 1)) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const std::size_t bucket_bytes : few_under_tsan<std::size_t>({1000, 1, 1 << 20}, 1)) {
        ZeroTraining one = job;
        one.ranks = ranks;
        one.sharding.stage = stage;
        one.sharding.bucket_bytes = bucket_bytes;
        one.queued = bucket_bytes == 1000;
        one.computes_on_thread = bucket_bytes == 1;
        EXPECT_TRUE(one.run() == reference) << ranks << " ranks, stage " << stage << ", " << bucket_bytes;
      }
    }
  }
}

}  // namespace weft::test
