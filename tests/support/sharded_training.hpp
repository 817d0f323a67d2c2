#pragma once
// Ranks as threads that reduce made-up gradients to sharded means, in an arena or in a bucket ring, and what
// came.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "weft/gradient/gradient_reducer.hpp"

namespace weft::test {

/// In (-1, 1), the same for the same arguments; no two sums round alike by accident.
inline float any_value(int rank, int step, int parameter, std::size_t i) {
  std::uint64_t mixed = (static_cast<std::uint64_t>(rank) << 48U) +
                        (static_cast<std::uint64_t>(step) << 40U) +
                        (static_cast<std::uint64_t>(parameter) << 32U) + i + 1;
  for (int round = 0; round < 3; ++round) {
    mixed ^= mixed >> 31U;
    mixed *= 0x9e3779b97f4a7c15ULL;
  }
  return static_cast<float>(static_cast<std::int32_t>(mixed >> 32U)) * 0x1p-31F;
}

struct ShardedTraining {
  BucketPlan plan;
  int ranks = 1;
  int steps = 3;
  int micro_steps = 1;
  std::optional<std::size_t> bucket_ring_bytes{};
  bool queued_wire = false;
  bool queued_compute = false;
  ReducerOptions options{};  ///< besides the hook
  std::function<std::shared_ptr<CommHook>()> hook{[] { return all_reduce_hook(); }};
  /// Called on every rank after each step, when the means are there; may be collective.
  std::function<void(GradientReducer& reducer, int rank, int step)> after{};
  /// Gradients of micro-step `step`, numbered over all steps.
  std::function<float(int rank, int step, int parameter, std::size_t i)> value = any_value;

  /// By step, of the plan's flat space, gaps included: the parts of all ranks put together.
  std::vector<std::vector<float>> run() const {
    std::vector<std::vector<float>> all(static_cast<std::size_t>(steps),
                                        std::vector<float>(static_cast<std::size_t>(plan.end())));
    std::mutex mutex;
    run_as_threads(ranks, [&](Communicator comm) {
      ReducerOptions mine = options;
      mine.buckets = plan;
      if (bucket_ring_bytes) mine.ring = BucketRing{*bucket_ring_bytes};
      mine.means = Means::sharded;
      mine.hook = hook();
      mine.wire = queued_wire ? Stream::queued() : Stream();
      GradientReducer reducer(comm, plan.layout(), mine);
      Stream compute = queued_compute ? Stream::queued() : Stream();
      for (int step = 0; step < steps; ++step) {
        for (int part = 0; part < micro_steps; ++part)
          micro_step(reducer, compute, comm.rank(), step * micro_steps + part, part + 1 == micro_steps);
        compute.synchronize();
        if (after) after(reducer, comm.rank(), step);
        const std::lock_guard lock(mutex);
        for (const Bucket& bucket : plan.buckets()) {
          const auto part = reducer.means(bucket).as<float>();
          const auto begin = bucket.begin + comm.rank() * std::ssize(part);
          std::ranges::copy(part, all[static_cast<std::size_t>(step)].begin() + begin);
        }
      }
    });
    return all;
  }

 private:
  void micro_step(GradientReducer& reducer, Stream& compute, int rank, int step, bool is_last) const {
    reducer.begin_step(is_last ? Exchange::now : Exchange::no_sync);
    for (const Bucket& bucket : plan.buckets()) {
      for (const ParamId id : bucket.params) {
        const View place = reducer.gradient(id, compute);
        const bool adds = reducer.accumulating();
        compute.run([=, this] {
          const auto out = place.as<float>();
          for (std::size_t i = 0; i < out.size(); ++i) {
            const float one = value(rank, step, static_cast<int>(index(id)), i);
            out[i] = adds ? out[i] + one : one;
          }
        });
        reducer.mark_ready(id, compute);
      }
    }
    reducer.finish_step(compute);
  }
};

}  // namespace weft::test
