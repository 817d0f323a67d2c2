#pragma once
// The step of a rule that needs whole tensors, in two passes over a rank's shard with a collective between them.
//
//   first()    factors of the first pass, by tensor: what is updated without more ado, and what prepares the rest
//   add()      after the first pass of a part of a bucket: takes what a whole tensor is needed for
//   second()   collective: factors of the second pass, which updates the tensors that are taken as a whole
//
// Each bucket gets the first pass as soon as it is reduced; the second pass of all buckets follows. Both are
// grouped_step(), so that bits are those of the fused step.

#include <memory>

#include "weft/collectives/communicator.hpp"
#include "zero/optimizer/optimizer_groups.hpp"
#include "zero/update/grouped_step.hpp"

namespace weft::detail {

class WholeTensors {
 public:
  /// What a pass needs to know of a step.
  struct Step {
    std::int64_t number = 1;
    double learning_rate = 0;
    double gradient_scale = 1;
  };

  virtual ~WholeTensors() = default;
  WholeTensors() = default;
  WholeTensors(const WholeTensors&) = delete;
  WholeTensors& operator=(const WholeTensors&) = delete;

  /// Valid until the next first(), as are those of second().
  virtual const GroupedFactors& first(const Step& step) = 0;
  /// @param slice begins on a cache line, at `begin` in the flat space of trained parameters
  virtual void add(const StepSlice& slice, std::int64_t begin, const Stream& compute) = 0;
  virtual const GroupedFactors& second(const Stream& compute) = 0;
};

/// Null for rules that are element-wise.
/// @param comm the ranks that state is sharded over. @param everywhere whether each of them has all of it
/// @param groups, trained live as long as the result
/// @throws Error (usage) for what the rule cannot do
std::unique_ptr<WholeTensors> whole_tensors(const zero::Optimizer& optimizer, const OptimizerGroups& groups,
                                            const ParamLayout& trained, const Communicator& comm,
                                            bool everywhere);

}  // namespace weft::detail
