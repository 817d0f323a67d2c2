#include "weft/pipeline/action.hpp"

#include <array>

namespace weft::pipeline {
namespace {

struct Kind {
  std::string_view name;
  ActionStream stream;
  bool of_microbatch;
};

constexpr std::array<Kind, action_types> kinds{{{"F", ActionStream::compute, true},
                                                {"B", ActionStream::compute, true},
                                                {"I", ActionStream::compute, true},
                                                {"W", ActionStream::compute, true},
                                                {"SEND_F", ActionStream::wire_out, true},
                                                {"RECV_F", ActionStream::wire_in, true},
                                                {"SEND_B", ActionStream::wire_out, true},
                                                {"RECV_B", ActionStream::wire_in, true},
                                                {"UNSHARD", ActionStream::wire_in, false},
                                                {"RESHARD", ActionStream::compute, false},
                                                {"REDUCE_GRAD", ActionStream::wire_out, false},
                                                {"RECOMPUTE", ActionStream::compute, true},
                                                {"OFFLOAD", ActionStream::host_copies, true},
                                                {"LOAD", ActionStream::host_copies, true}}};

const Kind& kind(ActionType type) {
  return kinds[static_cast<std::size_t>(type)];
}

}  // namespace

Action awaited(Action posted) {
  posted.awaits = true;
  return posted;
}

std::string_view name(ActionType type) {
  return kind(type).name;
}

ActionStream stream_of(ActionType type) {
  return kind(type).stream;
}

bool is_of_microbatch(ActionType type) {
  return kind(type).of_microbatch;
}

bool is_compute(ActionType type) {
  return type <= ActionType::backward_weight;
}

bool is_backward(ActionType type) {
  return type == ActionType::backward || type == ActionType::backward_input ||
         type == ActionType::backward_weight;
}

std::ostream& operator<<(std::ostream& out, const Action& action) {
  out << action.stage << (action.awaits ? "WAIT_" : "") << name(action.type);
  if (action.microbatch >= 0) out << action.microbatch;
  return out;
}

}  // namespace weft::pipeline
