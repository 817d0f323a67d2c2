#pragma once
// A model in parts: what their optimizers must agree on, and which gradients of a part count in the norm.

#include <vector>

#include "weft/zero/sharded_optimizer.hpp"

namespace weft::detail {

/// Parts that clip or scale differently would train on with different scales, or wait for a sum that others
/// do not take. Collective over `whole_model`. @throws Error (mismatch) where they do, and unless the ranks
/// have one place in their parts
void agree_on_whole_model(Communicator whole_model, const Communicator& part,
                          const zero::ShardedOptimizerOptions& options);

/// The flat space without the parameters that another part counts.
class CountedRanges {
 public:
  CountedRanges() = default;
  /// @throws Error (usage) for what is no parameter
  CountedRanges(const ParamLayout& layout, const std::vector<ParamId>& counted_elsewhere);

  /// each(from, to) of what counts of [begin, end), rising. Where that starts on a cache line, so does each.
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
  std::vector<Range> holes_;  // rising, whole cache lines
};

}  // namespace weft::detail
