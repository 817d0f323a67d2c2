#pragma once
// PowerSGD: sends the mean of gradient matrices as a product of two thin factors (Vogels et al., 2019,
// arXiv:1905.13727).
//
//   auto hook = weft::power_sgd({.rank = 4});
//   GradientReducer reducer(comm, ParamLayout::of(model.parameters()), {.hook = hook});
//   ...
//   save(hook->state());                          // between steps; on each rank, for residuals differ
//
// A weight's gradient M (rows x columns) becomes L R^T of a given rank. A step of the two-sided form:
// 1. Each rank computes L = M R with the basis R, which all ranks have; an all_reduce makes the mean of L.
// 2. L is made orthonormal. Each rank computes R = M^T L; a second all_reduce makes the mean of R.
// 3. The mean gradient is L R^T. Each rank keeps its residual, M minus its own product, and adds it to its
//    next gradient (error feedback). R, made orthonormal, is the basis of the next step, so that bases follow
//    the gradient's main directions.
// A rank sends rank x (rows + columns) elements in place of rows x columns.
//
// Differences from the paper and from PyTorch's hook:
// - The residual is this rank's own, a - L (a^T L)^T, not the distance to the mean, which grows without bound
//   where ranks' data differ, and gives the same mean. It is kept in 16 bits.
// - Vectors and small matrices travel with the factors, in the same collective.
// - A layer whose gradient is zero gives zero, not NaN.
// - If any rank has NaN or Inf, or a sum overflows, the step's means are NaN or Inf and the state is as if
//   the step had never been.
// - State belongs to parameters, not to buckets, so buckets may change. With Means::sharded a rank rebuilds
//   only its part, with the same bits.
//
// One hook serves one reducer, of f32 gradients, on the host or on a CUDA device. On a device, products that
// sum over rows are added in another order; everything else has the host's bits. Memory: 4 bytes an element,
// for the residuals before and after a step; on a device rank / 32 more. WRONG: scaling the loss by another
// factor from one step to the next; residuals have the old scale.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/compression/kept_as.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft {

/// How many collectives a bucket takes in a step.
enum class LowRankForm {
  two_sided,    ///< two: L and then R, as in the paper
  alternating,  ///< one: L in one step and R in the next, the other is kept (Vogels et al., 2020)
};

struct PowerSgdOptions {
  int rank = 1;
  /// Steps that count before compression begins; until then means are exact. Early gradients change fast: if
  /// compression begins at once, a transformer ends with a higher loss (docs/compression.md).
  std::int64_t start_step = 100;
  /// A matrix is compressed if its factors are smaller by more than this factor; others travel uncompressed.
  double min_rate = 2;
  bool warm_start = true;  ///< false: every step begins with new random bases, the same on all ranks
  KeptAs residual = KeptAs::sixteen_bits;  ///< how error feedback stores residuals; vectors have none
  LowRankForm form = LowRankForm::two_sided;
  std::uint64_t seed = 0;
  /// Names of parameters that travel uncompressed, whatever min_rate says.
  std::vector<std::string> whole{};
};

/// What a step hands on to the next, by parameter and in its shape. It fits any buckets. It fits another
/// number of ranks, too, if residuals are averaged over the old ranks.
struct PowerSgdState {
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    int rank = 0;
    std::vector<float> basis;     ///< [rank, rows or columns], the same on all ranks
    std::vector<float> residual;  ///< this rank's, in the gradient's shape; empty: none is kept
  };
  std::int64_t steps = 0;   ///< number of steps that counted
  bool left_bases = false;  ///< bases are [rank, rows], as after every other step of the alternating form
  std::vector<Tensor> tensors;
};

class PowerSgd : public CommHook {
 public:
  /// Call it between steps; it waits for the last one. @throws Error (usage) before there is a reducer
  virtual PowerSgdState state() = 0;
  /// Collective, between steps. Either all ranks load or none does; then the hook is unchanged, and training
  /// can continue. @throws Error (usage) for a state of another model or with NaN, naming the parameter;
  /// (mismatch) if another rank refuses its own, or if bases differ
  virtual void load_state(const PowerSgdState& state) = 0;
  /// Elements of one parameter's factors that travel in a two-sided step; 0: it is not compressed.
  virtual std::int64_t factor_elements(ParamId id) const = 0;
};

/// @throws Error (usage) for a rank below 1, a min_rate that is not positive and finite, a negative start
/// step. When the reducer is made: (usage) unless gradients are f32; if the rank is above what any matrix of
/// the model could use; if `whole` names a parameter that the model lacks, or every matrix
std::shared_ptr<PowerSgd> power_sgd(PowerSgdOptions options = {});

}  // namespace weft
