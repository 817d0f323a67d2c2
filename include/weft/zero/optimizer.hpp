#pragma once
// The update rule of a sharded optimizer and its constants.
//
//   weft::zero::Optimizer optimizer = weft::zero::AdamW{.learning_rate = 3e-4, .weight_decay = 0.1};
//
// AdamW, Adam and Sgd are element-wise: a parameter's next value depends on its own gradient and state alone. A
// rank can therefore update any range of the flat parameters, and the cut into ranges does not change a bit.
// Clipping by the norm of all gradients is not part of the rule: it is a factor of the gradients.
//
// Lamb and Lars multiply the rate of a tensor by a trust ratio, which takes norms of the whole tensor. They are
// summed exactly over the ranks that have parts of it, so the result is bitwise the same in every stage, for any
// bucket size, and for any number of ranks that has the same gradients. Price: the bytes of an all-reduce of 368 for
// each tensor that is adapted, and a wait of the host. These rules and Muon work on host memory, with no state
// offloaded.
//
// Arithmetic is f64 on the stored values and rounds once where a value is stored: moments to f32, parameters
// to f32 and from there to 16 bits. The error of a parameter is at most 1 unit in the last place of the
// larger of its old and new value; the error of a moment is at most 2 units of its largest operand.
//
// Out of f32's range: a second moment above 3.4e38 (from a gradient above 6e20) is stored as infinity and
// makes its parameter NaN, which is noticed; otherwise the parameter would never move again. NaN in gives NaN
// out.
//
// Muon multiplies whole matrices. The rank that owns a matrix gets its update from the ranks that have parts of it,
// orthogonalizes it, and sends it back; matrices are dealt out so that ranks multiply equally long. Price beside
// the products: a rank sends about 2 B (N - 1) / N^2 bytes, for B bytes of matrices on N ranks, and in stage 0
// B (N - 1) / N.
// The update travels in the data type of gradients and lies in their place: after step() they are overwritten. It
// needs OpenBLAS at run time. Bits are the same as above where the ranks' processors have the same kernels and each
// process has the same number of BLAS threads (OPENBLAS_NUM_THREADS).
//
// WRONG: giving AdamW a weight decay that was tuned for Adam. Adam adds it to the gradient, and so divides it
// by the root of the second moment; AdamW subtracts it from the parameter.
// WRONG: LAMB over tensors without shapes. A ParamLayout then takes each for a vector, and vectors are not adapted
// unless their group says so (param_groups.hpp): what is left is AdamW.

#include <variant>

namespace weft::zero {

/// Loshchilov, Hutter: Decoupled Weight Decay Regularization (2019), algorithm 2.
struct AdamW {
  double learning_rate = 1e-3;  ///< finite, 0 or more
  double beta1 = 0.9;           ///< in [0, 1)
  double beta2 = 0.999;         ///< in [0, 1)
  double epsilon = 1e-8;        ///< added to the root; in [1e-18, 1]; the error bound above needs 1e-13
  double weight_decay = 0.01;   ///< finite, 0 or more
};

/// Kingma, Ba: Adam (2015), algorithm 1; weight decay is added to the gradient.
struct Adam {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// velocity = momentum * velocity + gradient + weight_decay * parameter
/// parameter -= learning_rate * velocity
/// Without momentum no velocity is kept.
struct Sgd {
  double learning_rate = 1e-3;
  double momentum = 0;  ///< in [0, 1)
  double weight_decay = 0;
};

/// You et al.: Large Batch Optimization for Deep Learning: Training BERT in 76 Minutes (2020), algorithm 2, where phi
/// is the identity:
///   u = m / (sqrt(v) + epsilon) + weight_decay * p, with the moments and bias corrections of Adam
///   p -= learning_rate * (|p| / |u|) * u, with the norms of the tensor; the ratio is 1 where a norm is 0
/// A tensor that is not adapted is updated as by AdamW.
struct Lamb {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
};

/// You, Gitman, Ginsburg: Large Batch Training of Convolutional Networks (2017), algorithm 1:
///   rate = learning_rate * trust_coefficient * |p| / (|gradient| + weight_decay * |p|)
///   velocity = momentum * velocity + rate * (gradient + weight_decay * p)
///   p -= velocity
/// The rate of a tensor with a norm of 0, or that is not adapted, is `learning_rate`.
struct Lars {
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust_coefficient = 1e-3;  ///< finite, above 0
};

/// How the rate of a matrix follows from its shape, as torch.optim.Muon's adjust_lr_fn.
enum class MuonRate {
  original,         ///< x sqrt(max(1, rows / columns))
  match_rms_adamw,  ///< x 0.2 sqrt(max(rows, columns)), as large as AdamW's updates: its rates and decay then fit
};

/// Jordan et al.: Muon: An optimizer for hidden layers in neural networks (2024); `match_rms_adamw` and decoupled
/// decay of Liu et al.: Muon is Scalable for LLM Training (2025).
///   m = momentum * m + (1 - momentum) * g;  u = (1 - momentum) * g + momentum * m
///   x = u / |u|, then ns_steps times  x = a x + (b A + c A A) x  with A = x x^T
///   p -= learning_rate * (factor of MuonRate * x + weight_decay * p)
/// This is the rule of hidden matrices: parameters of two dimensions or more whose name has no "embed", "wte" or "wpe"
/// and no "head" or "lm_head" between dots. A group may say otherwise (ParamGroup::use_muon). Rows are the first
/// dimension. AdamW updates all others.
struct Muon {
  double learning_rate = 0.02;  ///< finite, above 0
  double momentum = 0.95;       ///< Nesterov's; in [0, 1)
  double weight_decay = 0;
  int ns_steps = 5;  ///< of Newton and Schulz, 1 to 20
  MuonRate adjust_lr = MuonRate::original;
  bool bf16_products = false;  ///< operands are rounded to bf16, as on a GPU, and products summed in f32
  /// The rule of the other parameters. Their rate in a step is the step's times others.learning_rate / learning_rate.
  AdamW others{};
};

using Optimizer = std::variant<AdamW, Adam, Sgd, Lamb, Lars, Muon>;

}  // namespace weft::zero
