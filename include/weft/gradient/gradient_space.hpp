#pragma once
// Where the gradients of a plan's flat space lie: all of them one after the other, or the buckets that are
// under way, in windows of less memory.
//
// A hook is given one with the plan, and takes the addresses of parameters from it; they hold as long as the
// plan. In windows, buckets lie over each other in turn: what a hook reads or writes there beside its own
// bucket, or before the bucket is on the wire or after it has landed, is another's. A value.
//
//   const View weight = gradients.slice(layout.offset(id), layout.count(id));
//   const GradientSpace copies = gradients.over(more.view());    // the same places in other memory
//
// WRONG: gradients.memory().slice(layout.offset(id), layout.count(id));   // in windows it does not lie there

#include <memory>
#include <vector>

#include "weft/core/view.hpp"

namespace weft {

class GradientSpace {
 public:
  /// Elements [begin, end) of the flat space, which are those from `at` on of the memory.
  struct Place {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t at = 0;
  };

  GradientSpace() = default;
  /// All of them, one after the other.
  GradientSpace(View all) : memory_(all) {}  // NOLINT: a view of everything is one
  /// @param places rising and apart from each other in the flat space, not in memory
  GradientSpace(View memory, std::vector<Place> places)
      : memory_(memory), places_(std::make_shared<const std::vector<Place>>(std::move(places))) {}

  DataType dtype() const { return memory_.dtype(); }
  Device device() const { return memory_.device(); }
  /// All that any of them lies in.
  View memory() const { return memory_; }
  /// Elements [begin, begin + count) of the flat space. @throws Error (usage) where there are none, or, in
  /// windows, when they are not of one bucket
  View slice(std::int64_t begin, std::int64_t count) const;
  /// The same places in `memory`, which is as many elements, of any data type. @throws Error (usage) else
  GradientSpace over(View memory) const;

 private:
  View memory_;
  std::shared_ptr<const std::vector<Place>> places_;  // null: the flat space itself
};

}  // namespace weft
