#pragma once
// Whether a plan that the options give is one for this model and these ranks.

#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

/// @throws Error (usage) unless the plan is of the parameters of `layout`, and every element of its flat
/// space is in one bucket, which lists the parameters that it has elements of
void expect_complete(const BucketPlan& plan, const ParamLayout& layout);
/// @throws Error (usage) unless every bucket begins at a multiple of `unit` elements and ends at one, or
/// where the layout does
void expect_blocks(const BucketPlan& plan, std::int64_t unit);
/// @throws Error (usage) unless every bucket is a part of whole `unit`s for each rank, naming what to plan
/// with
void expect_parts(const BucketPlan& plan, std::int64_t unit, int ranks);
/// @throws Error (usage) when a parameter lies in two buckets
void expect_whole_parameters(const BucketPlan& plan);

}  // namespace weft::detail
