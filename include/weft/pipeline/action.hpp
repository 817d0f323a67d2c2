#pragma once
// One entry of a pipeline's schedule: what a device does with one stage and, for most types, one microbatch.
//
//   Action{ActionType::forward, 2, 0}                     2F0            computes
//   Action{ActionType::receive_forward, 2, 0}             2RECV_F0       posts: the device goes on meanwhile
//   awaited(Action{ActionType::receive_forward, 2, 0})    2WAIT_RECV_F0  waits until the transfer is done
//   Action{ActionType::unshard, 2}                        2UNSHARD       has a stage and no microbatch
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
  reshard,           ///< RESHARD: releases what unshard gathered
  reduce_gradients,  ///< REDUCE_GRAD: sums the stage's gradients over data-parallel ranks
  recompute,         ///< RECOMPUTE: computes activations again from the stage's input
  offload,           ///< OFFLOAD: activations to the host
  load,              ///< LOAD: back to the device
};
inline constexpr int action_types = 14;

/// The actions of one stream run in order. A device's row is the order of its compute stream, and the order
/// in which it posts to the other streams.
enum class ActionStream : std::uint8_t { compute, wire_out, wire_in, host_copies };

struct Action {
  ActionType type = ActionType::forward;
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;  ///< -1 if the action has none
  bool awaits = false;           ///< the device waits here for what an earlier entry posted
  bool overlaps_next = false;    ///< runs as one with the next entry, a backward

  friend bool operator==(const Action&, const Action&) = default;
};
static_assert(sizeof(Action) == 16);

/// The entry that waits for what `posted` began.
Action awaited(Action posted);

/// "RECV_F"
std::string_view name(ActionType type);
ActionStream stream_of(ActionType type);
/// Whether it has a microbatch: all but unshard, reshard and reduce_gradients.
bool is_of_microbatch(ActionType type);
/// F, B, I or W.
bool is_compute(ActionType type);
bool is_backward(ActionType type);

/// "2RECV_F0", "2WAIT_RECV_F0", "2UNSHARD". Printing a schedule also marks pairs that overlap.
std::ostream& operator<<(std::ostream& out, const Action& action);

}  // namespace weft::pipeline
