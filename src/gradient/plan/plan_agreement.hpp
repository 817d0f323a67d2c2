#pragma once
// Checks before the first step that all ranks train one model, in the same buckets, with the same options.
//
// Each check gathers one hash of 8 bytes from every rank. Only when hashes differ do two ranks broadcast
// their descriptions, so that every rank throws the same Error. Without the check, ranks that differ would
// hang or mix gradients in a later step. Collective.

#include <string>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bucket_plan.hpp"

namespace weft::detail {

/// @param options a description of the options, which is compared and quoted @throws Error (mismatch), with
/// the same message on every rank, that names two ranks and the first parameter that differs, or their
/// options
void agree_on(Communicator& comm, const ParamLayout& layout, const std::string& options);
void agree_on(Communicator& comm, const BucketPlan& plan);

/// The parts of the Error that agree_on() throws.
struct Disagreement {
  const char* what;
  const char* advice;
  const char* operation;
  const char* line = "parameter";  ///< what a line is about
};
/// Compares a line for each parameter. The Error reads "what: parameter 3 is LINE on rank 0 and LINE on rank
/// 2".
void agree_on(Communicator& comm, const std::vector<std::string>& parameters, const Disagreement& otherwise);
/// Compares a text of each rank. The Error reads "what: rank 0 `mine`; rank 2 `mine`".
void agree_on(Communicator& comm, const std::string& mine, const Disagreement& otherwise);

}  // namespace weft::detail
