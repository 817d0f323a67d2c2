#pragma once
// Models in parts: checks that the parts' optimizers agree, and says which gradients of a part count in the
// norm.

#include <vector>

#include "weft/zero/sharded_optimizer.hpp"

namespace weft::detail {

/// Checks that all parts clip and scale alike; otherwise they would train with different scales, or wait for
/// a sum that other parts do not take. Collective over `whole_model`.
/// @throws Error (mismatch) where options differ, or the ranks do not have the same rank in their parts
void agree_on_whole_model(Communicator whole_model, const Communicator& part,
                          const zero::ShardedOptimizerOptions& options);

/// The flat space without the parameters that another part counts.
class CountedRanges {
 public:
  CountedRanges() = default;
  /// @throws Error (usage) for a number that is no parameter's
  CountedRanges(const ParamLayout& layout, const std::vector<ParamId>& counted_elsewhere);

  /// Calls each(from, to) for the ranges of [begin, end) that count, in ascending order. They begin on cache
  /// lines where `begin` does.
  template <class Each>
  void visit(std::int64_t begin, std::int64_t end, Each&& each) const {
    for (const Range& hole : holes_) {
      if (hole.end <= begin) continue;
      if (hole.begin >= end) break;
      if (hole.begin > begin) each(begin, hole.begin);
      begin = hole.end;
    }
    if (begin < end) each(begin, end);
  }

 private:
  struct Range {
    std::int64_t begin, end;
  };
  std::vector<Range> holes_;  // ascending, whole cache lines
};

}  // namespace weft::detail
