#pragma once
// What this rank has counted so far: steps, exposed time, bytes by operation, operations that are under way.
//
// A communicator and all that were split from it have one meter. The parts of weft that use them add to it:
// communicators, GradientReducer, ShardedParams, optimizers that clip or scale, StageExecutor. Adding is a
// few stores; sums, ages and names are worked out when they are read. `weft/metrics/metrics.hpp` serves a
// meter to Prometheus; docs/metrics.md lists all figures.
//
// A Meter is a handle: copies are the same meter, which lives until the last of them is gone. Any thread may
// read, also while the ranks train or wait.
//
//   const Meter meter = comm.meter();
//   for (const MetricFamily& family : meter.read())
//     for (const auto& sample : family.samples) std::cout << family.name << ' ' << sample.value << '\n';
//
// Steps. The first reducer or pipeline that finishes a step on this rank counts them, from the end of one to
// the end of the next. A trainer that knows better, such as one that trains several models in turns, says so
// itself, and then its word alone counts:
//
//   meter.step(seconds);
//
// Accounts. Whose gradients come late is known to all ranks together only (GradientReducer::account). With
// account_every(n), a reducer takes its accounts as soon as it has those of n steps.
//
// WRONG: account_every(n) on some ranks alone: the others do not take part, and the ranks disagree.
// WRONG: account_every(n) and calls of account() of one's own, more seldom than every n steps: those find
// only the steps that are left.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

namespace detail {
class Counters;
}  // namespace detail

/// Figures of one name, as Prometheus has them.
struct MetricFamily {
  enum class Kind { counter, gauge, histogram };
  struct Label {
    std::string_view name;
    std::string value;
  };
  struct Sample {
    double value = 0;
    std::vector<Label> labels{};
  };
  /// A histogram's: how many values were at most `upper`.
  struct Bucket {
    double upper = 0;  ///< the last one is infinite, and counts all
    std::uint64_t count = 0;
  };

  std::string_view name;  ///< with its unit: weft_exposed_seconds_total
  std::string_view help;
  Kind kind = Kind::counter;
  std::vector<Sample> samples{};  ///< of a histogram one, whose value is the sum of all that it saw
  std::vector<Bucket> buckets{};  ///< of a histogram alone, rising
};

class Meter {
 public:
  explicit Meter(std::shared_ptr<detail::Counters> counters) : counters_(std::move(counters)) {}

  /// All families, always the same and in one order. Those that nothing was counted for have zeros, or, where
  /// zero would say something, no sample.
  std::vector<MetricFamily> read() const;
  /// Among all ranks that were connected, also if the communicator was split from others.
  int rank() const;

  /// The trainer has done a step that took so long.
  void step(double seconds) const;
  /// Reducers take accounts each time they have those of so many steps; 0: they do not. At most 127, for
  /// reducers keep no more. On all ranks, between the same steps.
  /// @throws Error (usage) outside 0 to 127
  void account_every(int steps) const;

 private:
  friend class Communicator;
  std::shared_ptr<detail::Counters> counters_;
};

}  // namespace weft
