#pragma once
// Where the gradients of a plan's flat space lie: all of them one after the other, or, in a bucket ring, only
// the buckets of the moment, in less memory.
//
// A hook is given a GradientSpace with each plan, and takes the addresses of parameters from it. They hold as
// long as the plan. In a bucket ring several buckets share a place, one after the other: a hook reads and
// writes only the place of its own bucket, and only in work that reduce() submits to the wire's stream. A
// plain value.
//
//   const View weight = gradients.slice(layout.offset(id), layout.count(id));
//   const GradientSpace copies = gradients.over(more.view());    // the same places in other memory
//
// WRONG: gradients.memory().slice(layout.offset(id), layout.count(id));   // in a bucket ring it does not lie there

#include <memory>
#include <vector>

#include "weft/core/view.hpp"

namespace weft {

class GradientSpace {
 public:
  /// Elements [begin, end) of the flat space lie in the memory from element `at` on.
  struct Place {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t at = 0;
  };

  GradientSpace() = default;
  /// All gradients, one after the other.
  GradientSpace(View all) : memory_(all) {}  // NOLINT: a view of everything is one
  /// @param places rising and apart from each other in the flat space, not in memory
  GradientSpace(View memory, std::vector<Place> places)
      : memory_(memory), places_(std::make_shared<const std::vector<Place>>(std::move(places))) {}

  DataType dtype() const { return memory_.dtype(); }
  Device device() const { return memory_.device(); }
  /// The memory that all gradients lie in.
  View memory() const { return memory_; }
  /// Elements [begin, begin + count) of the flat space. @throws Error (usage) when the flat space ends
  /// before, or, in a bucket ring, when they are not in one bucket
  View slice(std::int64_t begin, std::int64_t count) const;
  /// The same places in other memory of any data type. @throws Error (usage) unless it has as many elements
  GradientSpace over(View memory) const;

 private:
  View memory_;
  std::shared_ptr<const std::vector<Place>> places_;  // null: the flat space itself
};

}  // namespace weft
