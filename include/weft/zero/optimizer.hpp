#pragma once
// The update rule of a sharded optimizer and its constants.
//
//   weft::zero::Optimizer optimizer = weft::zero::AdamW{.learning_rate = 3e-4, .weight_decay = 0.1};
//
// Rules are element-wise: a parameter's next value depends on its own gradient and state alone. A rank can
// therefore update any range of the flat parameters, and the cut into ranges does not change a bit. A rule
// that needs whole tensors (LAMB and LARS take the norm of a tensor, Muon and Shampoo multiply its matrix)
// cannot be written here, because a shard does not have whole tensors. Clipping by the norm of all gradients
// is not part of the rule: it is a factor of the gradients.
//
// Arithmetic is f64 on the stored values and rounds once where a value is stored: moments to f32, parameters
// to f32 and from there to 16 bits. The error of a parameter is at most 1 unit in the last place of the
// larger of its old and new value; the error of a moment is at most 2 units of its largest operand.
//
// Out of f32's range: a second moment above 3.4e38 (from a gradient above 6e20) is stored as infinity and
// makes its parameter NaN, which is noticed; otherwise the parameter would never move again. NaN in gives NaN
// out.
//
// WRONG: giving AdamW a weight decay that was tuned for Adam. Adam adds it to the gradient, and so divides it
// by the root of the second moment; AdamW subtracts it from the parameter.

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

using Optimizer = std::variant<AdamW, Adam, Sgd>;

}  // namespace weft::zero
