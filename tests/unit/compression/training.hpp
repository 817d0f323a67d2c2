#pragma once
// Ranks as threads that reduce made-up gradients through a hook, and what each of them got.

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "support/draw.hpp"
#include "weft/core/copy.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft::test {

using Floats = std::vector<float>;

/// Element by element, the same for the same arguments.
inline Floats normal(std::int64_t count, int rank, int step, int parameter) {
  const auto seed = (static_cast<std::uint64_t>(rank) << 40) + (static_cast<std::uint64_t>(step) << 20) +
                    static_cast<std::uint64_t>(parameter);
  Floats values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(normal(seed, i));
  return values;
}

struct Training {
  using Gradient = std::function<Floats(const ParamLayout&, int rank, int step, int parameter)>;

  ParamLayout layout;
  int ranks = 1;
  int steps = 1;
  ReducerOptions options{};  ///< without a hook and a wire
  bool queued = false;       ///< a wire with a thread, for every rank its own
  Gradient gradient = [](const ParamLayout& of, int rank, int step, int parameter) {
    return normal(of.count(ParamId{parameter}), rank, step, parameter);
  };
  /// Called on every rank after each step, when the means are there; may be collective.
  std::function<void(int rank, int step, CommHook& hook, Communicator& comm)> after{};
  /// Runs the ranks on the devices of their communicators: the host, or others.
  std::function<void(int ranks, const std::function<void(Communicator)>& rank)> where =
      [](int count, const std::function<void(Communicator)>& rank) { run_as_threads(count, rank); };

  /// @param make makes a hook for a rank
  /// @returns what rank 0 had in its arena after each step; sharded, the parts of all ranks put together
  template <class Make>
  std::vector<Floats> run(Make make) const {
    std::vector<Floats> all(static_cast<std::size_t>(steps), Floats(static_cast<std::size_t>(layout.size())));
    std::mutex mutex;
    where(ranks, [&](Communicator comm) {
      ReducerOptions with_hook = options;
      auto hook = make(comm.rank());
      with_hook.hook = hook;
      if (queued) with_hook.wire = Stream::queued();
      GradientReducer reducer(comm, layout, with_hook);
      Stream compute(comm.device());
      for (int step = 0; step < steps; ++step) {
        reducer.begin_step();
        std::vector<Floats> brought;  // kept until it was copied
        for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
          const Floats& values = brought.emplace_back(gradient(layout, comm.rank(), step, parameter));
          copy(reducer.gradient(ParamId{parameter}), ConstView(std::span(values)), compute);
          reducer.mark_ready(ParamId{parameter}, compute);
        }
        reducer.finish_step(compute);
        compute.synchronize();
        {
          const std::lock_guard lock(mutex);
          for (const Bucket& bucket : reducer.plan().buckets()) {
            if (options.means == Means::everywhere && comm.rank() > 0) continue;
            const View mine = reducer.means(bucket);
            Floats means(static_cast<std::size_t>(mine.count()));
            copy(View(std::span(means)), mine, compute);
            compute.synchronize();
            const auto at = (mine.bytes() - reducer.gradients().bytes()) / std::ptrdiff_t{sizeof(float)};
            for (std::size_t i = 0; i < means.size(); ++i) {
              const std::size_t element = static_cast<std::size_t>(at) + i;
              if (element < all[static_cast<std::size_t>(step)].size())
                all[static_cast<std::size_t>(step)][element] = means[i];
            }
          }
        }
        if (after) after(comm.rank(), step, *hook, comm);
      }
    });
    return all;
  }

  /// The mean over ranks of a parameter's gradient in a step, in f64.
  std::vector<double> mean(int step, int parameter) const {
    std::vector<double> sum(static_cast<std::size_t>(layout.count(ParamId{parameter})));
    for (int rank = 0; rank < ranks; ++rank) {
      const Floats values = gradient(layout, rank, step, parameter);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(values[i]) / ranks;
    }
    return sum;
  }

  Floats part(const Floats& arena, int parameter) const {
    const auto begin = arena.begin() + layout.offset(ParamId{parameter});
    return {begin, begin + layout.count(ParamId{parameter})};
  }
};

/// The product of [rows, rank] and [rank, columns] factors `left` and `right`, with `weights`.
inline Floats low_rank(std::int64_t rows, std::int64_t columns, const Floats& left, const Floats& right,
                       const Floats& weights) {
  Floats values(static_cast<std::size_t>(rows * columns));
  for (std::size_t k = 0; k < weights.size(); ++k) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
      for (std::size_t j = 0; j < static_cast<std::size_t>(columns); ++j)
        values[i * static_cast<std::size_t>(columns) + j] += weights[k] *
                                                             left[k * static_cast<std::size_t>(rows) + i] *
                                                             right[k * static_cast<std::size_t>(columns) + j];
    }
  }
  return values;
}

/// The first place where they differ, or nothing.
inline std::string difference(const std::vector<Floats>& a, const std::vector<Floats>& b) {
  for (std::size_t step = 0; step < std::min(a.size(), b.size()); ++step) {
    for (std::size_t i = 0; i < std::min(a[step].size(), b[step].size()); ++i) {
      if (std::bit_cast<std::uint32_t>(a[step][i]) != std::bit_cast<std::uint32_t>(b[step][i]))
        return text("step ", step, ", element ", i, ": ", a[step][i], " and ", b[step][i]);
    }
  }
  return a.size() == b.size() ? "" : text(a.size(), " and ", b.size(), " steps");
}

/// L2 norm of the difference over that of the reference.
template <class A, class B>
double relative_error(const A& values, const B& reference) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = static_cast<double>(reference[i]);
    const double off = static_cast<double>(values[i]) - expected;
    difference += off * off;
    norm += expected * expected;
  }
  return std::sqrt(difference / norm);
}

}  // namespace weft::test
