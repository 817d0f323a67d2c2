#pragma once
// Which gradients are reduced together, and in what order: a plain value made by a pure function.
//
// Buckets are contiguous ranges of the layout, mostly of whole parameters. Backward produces gradients from
// the last parameter to the first, so the first bucket to leave holds the last parameters. A plan can be
// printed, compared and hashed; all ranks compare hashes before the first step.
//
//   BucketPlan plan = plan_buckets(layout, 25 << 20);
//   std::cout << plan;

#include <cstddef>
#include <cstdint>
#include <limits>
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
  /// Elements of a buffer that holds all buckets: the layout's, or more where a bucket ends in padding.
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

/// Fills buckets from the last parameter backwards, and closes a bucket as soon as it holds `bucket_bytes`.
/// So only the last bucket to leave is smaller, and a bias shares a bucket with its weight.
/// @param alone parameters of so many bytes or more have a bucket of their own
/// @throws Error (usage) when bucket_bytes is 0
BucketPlan plan_buckets(const ParamLayout& layout, std::size_t bucket_bytes,
                        std::size_t alone = std::numeric_limits<std::size_t>::max());

/// Buckets of whole parameters that ranks can divide evenly. They are filled as by plan_buckets(), and also
/// closed where a unit of ZeRO begins, so that no bucket has gradients of two of them. The plan's
/// layout() has the parameters of `layout` with wider gaps: every bucket begins and ends at a multiple of
/// `unit` elements.
/// @param unit the number of ranks times the unit of a rank's part; whole cache lines for every rank
/// @param closes the first parameter of every unit of ZeRO; parameter 0 may be left out
/// @throws Error (usage) when bucket_bytes is 0, or as ParamLayout::with_starts()
BucketPlan plan_whole_buckets(const ParamLayout& layout, std::size_t bucket_bytes, std::int64_t unit,
                              const std::vector<ParamId>& closes = {});

/// Where the first bucket to leave ends if the size of the flat space is not a multiple of the unit.
enum class Tail {
  padded,   ///< beyond the layout, in padding
  partial,  ///< where the layout ends
};

/// The plan with every end of a bucket moved up to a multiple of `unit` elements, so that ranks can divide
/// buckets evenly, or that a codec's blocks are whole. Buckets that become empty are left out. A parameter
/// with elements on both sides of an end is in both buckets. @throws Error (usage) unless unit >= 1
BucketPlan aligned(const BucketPlan& plan, std::int64_t unit, Tail tail = Tail::padded);

}  // namespace weft
