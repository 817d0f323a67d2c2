#pragma once
// What the reducer measures of gradients on their way: NaN and infinite values before they are summed, and
// sums of squares of the means. Each is one pass over the gradients, on the wire's streams.

#include <atomic>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bad_values.hpp"
#include "weft/gradient/bucket_plan.hpp"
#include "weft/gradient/gradient_space.hpp"

namespace weft::detail {

/// Counts NaN and infinite values by parameter, and shares the counts with all ranks.
class BadValueCounter {
 public:
  BadValueCounter(const ParamLayout& layout, Device device, bool logs);

  /// @param stream sets the counts to zero; goes before what count() submits
  void begin_step(const Stream& stream);
  /// Counts in a bucket, in the order of `lane`. @param gradient the bucket's elements
  void count(const Bucket& bucket, ConstView gradient, const Stream& lane);
  /// Starts an all_gather of 24 bytes per rank once `counted` are done, the events after which the step is
  /// counted. Collective; does not block.
  void share(Communicator& comm, std::uint64_t step, const std::vector<Event>& counted);
  /// Progresses what share() started.
  void poll() { host_.poll(); }
  /// Done when found() would not block.
  const Event& shared() const { return shared_.event(); }
  /// The bad values of the step that was shared last. Blocks until they are known. This rank's are logged,
  /// once, where asked.
  const std::vector<BadValues>& found();

 private:
  void summarize();

  const ParamLayout& layout_;
  Buffer counts_;                   // i64, where the gradients are: NaN and infinite values by parameter
  std::vector<std::int64_t> here_;  // counts_, on the host
  std::vector<std::int64_t> mine_;  // what this rank shares
  std::vector<std::int64_t> all_;   // what all ranks shared
  Stream fetch_;                    // where the gradients are
  Stream host_;
  Work shared_;
  int rank_ = 0;
  bool is_read_ = true;
  bool logs_;
  std::uint64_t step_ = 0;
  std::vector<BadValues> found_;
};

/// Sums squares of the means per fixed block of the flat space, as buckets arrive. The bucket that arrives
/// last in a block sums all of it. So a sum is taken over final values in one fixed order, whatever the
/// buckets are.
class BlockSquares {
 public:
  /// Elements of the flat space.
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  /// @throws Error (usage) unless `block` is a multiple of 64
  BlockSquares(const ParamLayout& layout, Device device, std::int64_t block);

  /// @param owned by bucket, the elements whose means this rank will have. Between steps
  void adopt(const std::vector<Range>& owned);
  /// Adds the means of `range`, one of `owned`. They are complete when `lane` reaches this point.
  /// @param values elements of the flat space from `begin` on: at least the blocks that `range` touches
  void add(Range range, ConstView values, std::int64_t begin, const Stream& lane);
  /// f64, by block; zero for blocks of which this rank has no means.
  ConstView sums() const { return sums_.view(); }

 private:
  template <class Function>
  void for_complete_blocks(Range range, Function function);
  void sum(std::int64_t first, std::int64_t last, ConstView values, std::int64_t begin, const Stream& stream);

  std::int64_t size_;
  std::int64_t block_;
  Buffer sums_;
  struct Count {
    std::int64_t parts = 0;              // ranges that touch the block
    std::atomic<std::int64_t> added{0};  // of these, in all steps so far
  };
  std::vector<Count> counts_;
};

}  // namespace weft::detail
