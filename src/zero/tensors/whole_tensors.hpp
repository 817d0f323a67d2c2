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
#include <span>

#include "weft/collectives/communicator.hpp"
#include "zero/tensors/optimizer_groups.hpp"
#include "zero/update/grouped_step.hpp"

namespace weft::detail {

class WholeTensors {
 public:
  /// The values of a step that both passes use.
  struct Step {
    std::int64_t number = 1;
    double learning_rate = 0;
    double gradient_scale = 1;
  };
  /// Where the tensors are. Groups and layout live as long as the WholeTensors.
  struct Place {
    const OptimizerGroups& groups;
    const ParamLayout& trained;
    Communicator comm;  ///< the ranks that state is sharded over
    bool everywhere;    ///< whether each of them has all of it
  };
  /// This rank's part of a bucket; its gradient may be overwritten.
  struct Part {
    std::int64_t begin = 0;  ///< in the flat space of trained parameters, on a cache line
    StepSlice slice;
    View gradient;
  };

  virtual ~WholeTensors() = default;
  WholeTensors() = default;
  WholeTensors(const WholeTensors&) = delete;
  WholeTensors& operator=(const WholeTensors&) = delete;

  /// The factors of the first pass. Valid until the next first(); so are the factors of second().
  virtual const GroupedFactors& first(const Step& step) = 0;
  virtual void add(const Part& part, const Stream& compute) = 0;
  /// @param parts all of them, in an order that is the same on every rank
  virtual const GroupedFactors& second(std::span<const Part> parts, const Stream& compute) = 0;
  /// Bytes of memory that is kept beside the state.
  virtual std::int64_t bytes() const { return 0; }
};

std::unique_ptr<WholeTensors> trust_ratios(const WholeTensors::Place& place);
/// @throws Error (usage) without a BLAS
std::unique_ptr<WholeTensors> owned_matrices(const WholeTensors::Place& place);
/// The one for the rule; null for rules that are element-wise. @throws Error (usage) for what the rule cannot do
std::unique_ptr<WholeTensors> whole_tensors(const zero::Optimizer& optimizer,
                                            const WholeTensors::Place& place);

}  // namespace weft::detail
