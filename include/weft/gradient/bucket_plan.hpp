#pragma once
// Which gradients travel together, and in what order: a plain value made by a pure function.
//
// Buckets are contiguous ranges of the layout, mostly of whole parameters. Backward produces gradients from
// the last parameter to the first, so the first bucket to leave holds the last parameters. A plan is
// printable, comparable and hashed; all ranks compare hashes before the first step.
//
//   BucketPlan plan = plan_buckets(layout, 25 << 20);
//   std::cout << plan;

#include <cstdint>
#include <ostream>
#include <vector>

#include "weft/gradient/param_layout.hpp"

namespace weft {

struct Bucket {
  std::int64_t begin = 0;  ///< elements of the flat space, [begin, end)
  std::int64_t end = 0;
  std::vector<ParamId> params;  ///< in the order in which backward is expected to finish them

  std::int64_t count() const { return end - begin; }
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

class BucketPlan {
 public:
  BucketPlan(ParamLayout layout, std::vector<Bucket> buckets)
      : layout_(std::move(layout)), buckets_(std::move(buckets)) {}

  const ParamLayout& layout() const { return layout_; }
  /// In the order in which they leave.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Elements of a buffer that all buckets lie in: the layout's, or more where one ends in padding.
  std::int64_t end() const;
  std::uint64_t hash() const;

  friend bool operator==(const BucketPlan& a, const BucketPlan& b) {
    return a.hash() == b.hash() && a.buckets_ == b.buckets_;
  }
  /// A line per bucket: range, bytes, first and last parameter.
  friend std::ostream& operator<<(std::ostream& out, const BucketPlan& plan);

 private:
  ParamLayout layout_;
  std::vector<Bucket> buckets_;
};

/// Fills buckets from the last parameter backwards; a bucket is closed as soon as it holds `bucket_bytes`, so
/// only the last to leave is smaller. A bias then travels with its weight instead of waiting for an operation
/// of its own. @throws Error (usage) when bucket_bytes is 0
BucketPlan plan_buckets(const ParamLayout& layout, std::size_t bucket_bytes);

/// Buckets of whole parameters that ranks can divide evenly, over a layout with the gaps that takes: filled
/// as above, and closed, too, where a group of parameters begins, so that no bucket has gradients of two
/// groups. The plan's layout() is not `layout`: it has the same parameters, and every bucket begins and ends
/// at a multiple of `unit` elements of it.
/// @param unit whole cache lines for every rank: ranks times what a rank's part is to be a multiple of
/// @param closes the first parameter of every group; the first of all may be left out
/// @throws Error (usage) when bucket_bytes is 0, or as ParamLayout::with_starts()
BucketPlan plan_whole_buckets(const ParamLayout& layout, std::size_t bucket_bytes, std::int64_t unit,
                              const std::vector<ParamId>& closes = {});

/// What the last elements of the flat space are, where it is no multiple of a unit.
enum class Tail {
  padded,   ///< the first bucket ends beyond the layout, in padding
  partial,  ///< it ends where the layout does
};

/// The plan with every end of a bucket moved up to a multiple of `unit` elements, so that ranks can divide
/// buckets evenly, or that blocks of a code are whole; buckets that vanish are left out. A parameter that an
/// end goes through is in both buckets. @throws Error (usage) unless unit >= 1
BucketPlan aligned(const BucketPlan& plan, std::int64_t unit, Tail tail = Tail::padded);

}  // namespace weft
