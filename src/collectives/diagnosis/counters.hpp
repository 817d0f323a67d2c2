#pragma once
// What a Meter reads: the counters that the parts of the library add to, one set for a communicator and all
// that were split from it.
//
// Adding takes no lock. What can be worked out from operation logs is not counted at all, but read from them:
// bytes, numbers and ages of operations.

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/diagnosis/operation_log.hpp"
#include "weft/collectives/meter.hpp"

namespace weft {
class Communicator;
}  // namespace weft

namespace weft::detail {

/// A sum that any thread adds to. A reader also sees what a thread added to other sums before it added to this one.
class Count {
 public:
  void add(std::uint64_t more = 1) { value_.fetch_add(more, std::memory_order_release); }
  double value() const { return static_cast<double>(value_.load(std::memory_order_acquire)); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A sum of times, in whole nanoseconds, ordered as a Count.
class Seconds {
 public:
  void add(std::chrono::nanoseconds time) { value_.fetch_add(time.count(), std::memory_order_release); }
  void add(double seconds) { value_.fetch_add(std::llround(seconds * 1e9), std::memory_order_release); }
  double value() const { return static_cast<double>(value_.load(std::memory_order_acquire)) * 1e-9; }

 private:
  std::atomic<std::int64_t> value_{0};
};

/// How much a sum that is kept elsewhere has grown since the last call. One thread uses it.
class Growth {
 public:
  double of(double sum) { return sum - std::exchange(before_, sum); }

 private:
  double before_ = 0;
};

/// How long steps took.
class StepTimes {
 public:
  /// Upper bounds of the histogram's buckets, in seconds. One more bucket counts longer steps.
  static constexpr std::array uppers{.001, .0025, .005, .01, .025, .05, .1, .25,
                                     .5,   1.,    2.5,  5.,  10.,  25., 60.};

  void add(double seconds);
  double sum() const { return sum_.value(); }
  std::vector<MetricFamily::Bucket> buckets() const;

 private:
  std::array<Count, uppers.size() + 1> counts_{};  // by bucket, without those below
  Seconds sum_;
};

class Counters {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param backend its name, for the figures' labels
  Counters(int rank, int size, std::string backend);

  int rank() const { return rank_; }
  std::vector<MetricFamily> read() const;

  /// A communicator's operations, until end() of the same log.
  void add(std::shared_ptr<const OperationLog> log);
  void end(const OperationLog& log) noexcept;

  /// The part of the library that `who` stands for has finished a step that began at `began`.
  void step_finished(const void* who, Clock::time_point began);
  /// `who` is about to end; another one counts steps then.
  void leave(const void* who) noexcept;
  void step_given(double seconds);

  // Reducers
  Seconds gradients_exposed;
  Count gradient_raw_bytes;   ///< what gradients would send without compression
  Count gradient_wire_bytes;  ///< what they sent
  // and their accounts
  std::atomic<int> account_every{0};
  Count accounted_steps;
  Seconds accounted, link_busy, overlap, late_wait, skew, late;
  // ZeRO
  Seconds parameters_exposed, offload_stalls;
  std::atomic<double> loss_scale{std::nan("")};
  std::atomic<double> gradient_norm{std::nan("")};
  Count skipped_steps;
  // Embedding tables in files
  Count table_hits, table_misses, table_read_bytes, table_written_bytes;
  Seconds table_stalls;
  // Pipelines
  Count pipeline_steps;
  Seconds pipeline, pipeline_waits;

 private:
  const int rank_;
  const int size_;
  const std::string backend_;
  std::atomic<bool> steps_are_given_{false};
  StepTimes given_;
  StepTimes finished_;
  std::atomic<const void*> counts_steps_{nullptr};  // who finished the first step
  std::atomic<Clock::rep> last_finished_{0};        // written by who counts
  mutable std::mutex logs_mutex_;
  std::vector<std::shared_ptr<const OperationLog>> logs_;
  OperationLog::Totals ended_;  // of communicators that are gone
};

/// The counters behind comm.meter().
Counters& counters(const Communicator& comm);
/// The same, for who may outlive the communicator.
std::shared_ptr<Counters> shared_counters(const Communicator& comm);

}  // namespace weft::detail
