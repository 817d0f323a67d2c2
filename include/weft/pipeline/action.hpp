#pragma once
// One entry of a pipeline's schedule: what a device does with one stage and, mostly, one microbatch.
//
//   Action{ActionType::forward, 2, 0}                       2F0           computes
//   Action{ActionType::receive_forward, 2, 0}               2RECV_F0      posts; the transfer goes on beside
//   what follows awaited(Action{ActionType::receive_forward, 2, 0})      2WAIT_RECV_F0 the device goes on
//   when it is through Action{ActionType::unshard, 2}                          2UNSHARD      of a stage, not
//   of a microbatch
//
// The names are PyTorch's (torch.distributed.pipelining): I is the gradient of the input alone, W that of the
// weights, B both at once. The zero-bubble papers call I "B" and B "BW".
//
// A send names the stage that produced the value, a receive the stage that consumes it: 0SEND_F3 meets
// 1RECV_F3, and 1SEND_B3 meets 0RECV_B3.

#include <cstdint>
#include <ostream>
#include <string_view>

namespace weft::pipeline {

enum class ActionType : std::uint8_t {
  forward,           ///< F
  backward,          ///< B: gradients of input and weights, in one
  backward_input,    ///< I
  backward_weight,   ///< W
  send_forward,      ///< SEND_F: an activation to the next stage
  receive_forward,   ///< RECV_F
  send_backward,     ///< SEND_B: a gradient to the stage before
  receive_backward,  ///< RECV_B
  unshard,           ///< UNSHARD: gathers the stage's parameters
  reshard,           ///< RESHARD: lets go what unshard gathered
  reduce_gradients,  ///< REDUCE_GRAD: sums the stage's gradients over data-parallel ranks
  recompute,         ///< RECOMPUTE: activations again from the stage's input, just before they are needed
  offload,           ///< OFFLOAD: activations to the host
  load,              ///< LOAD: and back
};
inline constexpr int action_types = 14;

/// What runs in order: an action waits for what its own stream has before it. The row of a device is the
/// order of its compute stream and the order in which the others are given their work.
enum class ActionStream : std::uint8_t { compute, wire_out, wire_in, host_copies };

struct Action {
  ActionType type = ActionType::forward;
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;  ///< -1 where the action is of the whole stage
  bool awaits = false;           ///< the device waits here for what an earlier entry posted
  bool overlaps_next = false;    ///< a forward and a backward in one: starts when this one and the next can

  friend bool operator==(const Action&, const Action&) = default;
};
static_assert(sizeof(Action) == 16);

/// The entry that waits for what `posted` began.
Action awaited(Action posted);

/// "RECV_F"
std::string_view name(ActionType type);
ActionStream stream_of(ActionType type);
/// Whether it is of one microbatch: all but unshard, reshard and reduce_gradients.
bool is_of_microbatch(ActionType type);
/// F, B, I or W.
bool is_compute(ActionType type);
bool is_backward(ActionType type);

/// "2RECV_F0", "2WAIT_RECV_F0", "2UNSHARD"; a pair that overlaps is printed by whoever has both.
std::ostream& operator<<(std::ostream& out, const Action& action);

}  // namespace weft::pipeline
