#pragma once
// A stage of ZeRO (Rajbhandari et al. 2020) says which part of the training state is replicated on every rank
// and which is sharded. It is a row of this table and nothing else.
//
//   stage   optimizer     gradients     parameters     bytes per rank (f32, Adam, P parameters, N ranks)
//   0       replicated    replicated    replicated     16 P
//   1       sharded       replicated    replicated      8 P + 8 P / N
//   2       sharded       sharded       replicated      4 P + 12 P / N
//   3       sharded       sharded       sharded             16 P / N
//
// Working memory comes on top: a bucket ring of gradients from stage 2 on, and gather buffers of
// parameters in stage 3.

namespace weft::zero {

enum class Placement { replicated, sharded };

struct Stage {
  Placement optimizer = Placement::replicated;
  Placement gradients = Placement::replicated;
  Placement parameters = Placement::replicated;

  friend bool operator==(const Stage&, const Stage&) = default;
};

/// @throws Error (usage) outside 0 to 3
Stage stage(int number);

}  // namespace weft::zero
