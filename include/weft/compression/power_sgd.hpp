#pragma once
// PowerSGD: the mean of gradient matrices as a product of two thin ones, of which only those travel.
//
// A weight's gradient M (rows x columns) becomes L R^T of a given rank: ranks multiply by a basis R that all
// have, sum the products L = M R, make L orthonormal, and sum R = M^T L. What a rank's own gradient has
// beside that, its residual, is added to its next one: nothing is lost, it comes later. Bases start from
// where the last step ended, so that they follow the gradient's main directions (Vogels et al., 2019,
// arXiv:1905.13727).
//
//   auto hook = weft::power_sgd({.rank = 4});
//   GradientReducer reducer(comm, ParamLayout::of(model.parameters()), {.hook = hook});
//   ...
//   save(hook->state());                          // between steps; per rank, for residuals differ
//
// What differs from the paper and from PyTorch's hook: the residual is this rank's own, a - L (a^T L)^T, and
// not the distance to the mean, which grows without bound where ranks' data differ and means the same; it is
// kept in 16 bits. Vectors and small matrices travel with the factors, in the same collective. A layer
// without a gradient gives zero and no NaN. A step to which any rank brings NaN or Inf, or whose sums
// overflow, leaves no trace: its means are NaN or Inf, and the state is as if it had never been. State
// belongs to parameters, not to buckets: buckets may change, and with Means::sharded, where a rank rebuilds
// only its part, the bits are the same.
//
// One hook serves one reducer, of f32 gradients, on the host or on a CUDA device; there products that sum
// over rows are added in another order, and all else has the host's bits. Memory: 4 bytes an element, for
// residuals before and after a step; on a device rank / 32 more. WRONG: scaling the loss by another factor
// from one step to the next; residuals have the old scale.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/compression/kept_as.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {

/// How many collectives a bucket takes a step.
enum class LowRankForm {
  two_sided,    ///< L and then R: two, as in the paper
  alternating,  ///< L in one step and R in the next, with the other kept: one (Vogels et al., 2020)
};

struct PowerSgdOptions {
  int rank = 1;
  /// Steps that count until compression begins; before it means are exact. Early gradients change fast: begun
  /// at once, a transformer learns less for good (docs/compression.md).
  std::int64_t start_step = 100;
  /// A matrix is compressed when that makes it smaller than by this factor; others travel as they are.
  double min_rate = 2;
  bool warm_start = true;  ///< else every step begins with new random bases, the same on all ranks
  KeptAs residual = KeptAs::sixteen_bits;  ///< of a matrix; vectors lose nothing
  LowRankForm form = LowRankForm::two_sided;
  std::uint64_t seed = 0;
  /// Names of parameters that travel as they are, whatever min_rate says.
  std::vector<std::string> whole{};
};

/// What a step hands on to the next, by parameter and in its shape: good for any buckets, and for another
/// number of ranks where residuals are averaged over those that were.
struct PowerSgdState {
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    int rank = 0;
    std::vector<float> basis;     ///< [rank, rows or columns], the same on all ranks
    std::vector<float> residual;  ///< as the gradient, this rank's; empty: none is kept
  };
  std::int64_t steps = 0;   ///< that counted
  bool left_bases = false;  ///< of rows, as every other step of the alternating form ends with
  std::vector<Tensor> tensors;
};

class PowerSgd : public CommHook {
 public:
  /// Between steps; waits for the last. @throws Error (usage) before there is a reducer
  virtual PowerSgdState state() = 0;
  /// Collective, between steps. All ranks load or none does: then the hook is as it was, and training can go
  /// on. @throws Error (usage) for a state of another model or with NaN, naming the parameter; (mismatch)
  /// when another rank refuses its own, or when bases differ
  virtual void load_state(const PowerSgdState& state) = 0;
  /// Elements of one parameter's factors that travel in a step of two sides; 0: it is not compressed.
  virtual std::int64_t factor_elements(ParamId id) const = 0;
};

/// @throws Error (usage) for a rank below 1, a rate that is none, a negative start. When the reducer is made:
/// (usage) unless gradients are f32, when the rank is above what any matrix of the model could use, and when
/// `whole` names what the model lacks, or every matrix
std::shared_ptr<PowerSgd> power_sgd(PowerSgdOptions options = {});

}  // namespace weft
