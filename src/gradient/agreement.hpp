#pragma once
// Whether all ranks mean the same: train one model, in the same buckets, with the same options.

#include <string>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

/// They cost a small all_gather or two; what differs would hang or mix gradients later. Collective. @throws
/// Error (mismatch), with the same words on every rank, naming two ranks and what differs: the first
/// parameter, or the options, which `options` describes
void agree_on(Communicator& comm, const ParamLayout& layout, const std::string& options);
void agree_on(Communicator& comm, const BucketPlan& plan);

struct Disagreement {
  const char* what;
  const char* advice;
  const char* operation;
};
/// The same of what each rank says of itself: "what: rank 0 `mine`; rank 2 `mine`".
void agree_on(Communicator& comm, const std::string& mine, const Disagreement& otherwise);

}  // namespace weft::detail
