#pragma once
// What a sharded optimizer does to each parameter, as numbers: which rule, and its constants.
//
//   weft::zero::Optimizer optimizer = weft::zero::AdamW{.learning_rate = 3e-4, .weight_decay = 0.1};
//
// Rules are element-wise: a parameter's next value depends on its own gradient and state alone. That is what
// lets a rank update any range of the flattened parameters, cut wherever memory and balance ask for it, and
// give the same bits as any other cut. A rule that looks at whole tensors (LAMB and LARS take the norm of a
// tensor, Muon and Shampoo multiply its matrix) is none of these and cannot be written as one: a shard does
// not see whole tensors. Clipping by the norm of all gradients is no part of the rule, it is a factor of the
// gradients.
//
// Arithmetic is f64 from the stored values, rounded once where a value is stored: moments to f32, parameters
// to f32, and to 16 bits from there. A parameter is within 1 unit in the last place of the larger of its old
// and new value of what exact arithmetic gives, a moment within 2 of its largest operand.
//
// Beyond f32: a second moment above 3.4e38 (of a gradient above 6e20) is stored as infinite and makes its
// parameter NaN, which is seen, instead of one that never moves again. NaN in gives NaN out.
//
// WRONG: weight decay meant for Adam given to AdamW. Adam adds it to the gradient, where it is divided by the
// root of the second moment as gradients are; AdamW takes it off the parameter.

#include <variant>

namespace weft::zero {

/// Loshchilov, Hutter: Decoupled Weight Decay Regularization (2019), algorithm 2.
struct AdamW {
  double learning_rate = 1e-3;  ///< finite, 0 or more
  double beta1 = 0.9;           ///< in [0, 1)
  double beta2 = 0.999;         ///< in [0, 1)
  double epsilon = 1e-8;        ///< added to the root; in [1e-18, 1]; exact to the last place from 1e-13
  double weight_decay = 0.01;   ///< finite, 0 or more
};

/// Kingma, Ba: Adam (2015), algorithm 1; weight decay is a gradient.
struct Adam {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

/// velocity = momentum * velocity + gradient + weight_decay * parameter; parameter -= learning_rate *
/// velocity. Without momentum there is no velocity to keep.
struct Sgd {
  double learning_rate = 1e-3;
  double momentum = 0;  ///< in [0, 1)
  double weight_decay = 0;
};

using Optimizer = std::variant<AdamW, Adam, Sgd>;

}  // namespace weft::zero
