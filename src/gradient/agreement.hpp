#pragma once
// Whether all ranks train the same model in the same buckets.

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

/// Costs one small all_gather; what differs would hang or mix gradients later. Collective. @throws Error
/// (mismatch), with the same words on every rank, naming two ranks and the first parameter that differs
void agree_on(Communicator& comm, const BucketPlan& plan);

}  // namespace weft::detail
