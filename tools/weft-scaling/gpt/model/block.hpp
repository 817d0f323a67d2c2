#pragma once
// The two residual branches of a transformer block: x += project(attention(norm(x))) and x += mlp(norm(x)).
//
// The stream x is updated in place; what backward needs is kept in `Saved`, and the gradients that a
// postponed weight pass needs are kept in `Flow`. A model that runs both passes at once needs one Flow for
// all its blocks; a pipeline that puts weight gradients off needs one per branch and microbatch, and must
// keep the incoming gradient as well.
//
//   branch.forward(x, saved, sequences);
//   branch.backward(Pass::both, dy, saved, flow, sequences, sink);    // result in flow.dx
//   or: branch.backward(Pass::input, ...);  ...  branch.backward(Pass::weight, ...);     // the same bits
//
// WRONG: passing a branch's own flow.dx as dy: input and output of the norm's gradient must not be the same
// memory.

#include <string>

#include "weft-scaling/gpt/model/attention.hpp"
#include "weft-scaling/gpt/model/layers.hpp"

namespace weft::examples {

struct BlockSizes {
  int layers = 1;  ///< of the whole model; scales the projections onto the stream
  int width = 0;
  int heads = 1;
  int context = 0;
};

template <class Real>
class AttentionBranch {
 public:
  struct Saved {
    typename LayerNorm<Real>::Saved norm;
    Real* input = nullptr;          ///< [rows, width] after the norm
    Real* qkv = nullptr;            ///< [rows, 3 width]
    Real* probabilities = nullptr;  ///< one context x context matrix per sequence and head
    Real* mixed = nullptr;          ///< [rows, width] before the projection
  };
  struct Flow {
    Real* dmixed = nullptr;
    Real* dqkv = nullptr;
    Real* dinput = nullptr;
    Real* dx = nullptr;
    Real* scratch = nullptr;
  };

  AttentionBranch(ParameterTable<Real>& table, const std::string& name, const BlockSizes& sizes);
  Saved make_saved(Workspace<Real>& workspace, int sequences) const;
  Flow make_flow(Workspace<Real>& workspace, int sequences) const;
  /// Another one, for a postponed weight pass. It shares with `shared` what only the input pass reads.
  Flow make_flow(Workspace<Real>& workspace, int sequences, const Flow& shared) const;
  void forward(Real* x, const Saved& saved, int sequences) const;
  void backward(Pass pass, const Real* dy, const Saved& saved, const Flow& flow, int sequences,
                GradientSink<Real>& sink) const;

 private:
  Math<Real>& math_;
  BlockSizes sizes_;
  LayerNorm<Real> norm_;
  Linear<Real> qkv_;
  Attention<Real> attention_;
  Linear<Real> project_;
};

template <class Real>
class MlpBranch {
 public:
  struct Saved {
    typename LayerNorm<Real>::Saved norm;
    Real* input = nullptr;   ///< [rows, width] after the norm
    Real* slope = nullptr;   ///< [rows, 4 width] of the GELU
    Real* hidden = nullptr;  ///< [rows, 4 width] after the GELU
  };
  struct Flow {
    Real* dhidden = nullptr;
    Real* dinput = nullptr;
    Real* dx = nullptr;
  };

  MlpBranch(ParameterTable<Real>& table, const std::string& name, const BlockSizes& sizes);
  Saved make_saved(Workspace<Real>& workspace, int sequences) const;
  Flow make_flow(Workspace<Real>& workspace, int sequences) const;
  void forward(Real* x, const Saved& saved, int sequences) const;
  void backward(Pass pass, const Real* dy, const Saved& saved, const Flow& flow, int sequences,
                GradientSink<Real>& sink) const;

 private:
  Math<Real>& math_;
  BlockSizes sizes_;
  LayerNorm<Real> norm_;
  Linear<Real> expand_;
  Linear<Real> project_;
};

}  // namespace weft::examples
