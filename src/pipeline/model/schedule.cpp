// Actions and the schedules they make up: names, streams, placements, and the hash by which ranks compare.

#include "weft/pipeline/schedule.hpp"

#include <array>

#include "core/base/fnv.hpp"

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

std::int64_t Schedule::actions() const {
  std::int64_t result = 0;
  for (const auto& row : rows) result += static_cast<std::int64_t>(row.size());
  return result;
}

std::vector<int> Schedule::stages_of(int device) const {
  std::vector<int> result;
  for (int stage = 0; stage < stages(); ++stage) {
    if (device_of[static_cast<std::size_t>(stage)] == device) result.push_back(stage);
  }
  return result;
}

std::uint64_t Schedule::hash() const {
  weft::detail::Fnv hash;
  hash.add(std::int64_t{microbatches});
  for (const int device : device_of) hash.add(std::int64_t{device});
  for (const auto& row : rows) {
    hash.add(static_cast<std::int64_t>(row.size()));
    for (const Action& action : row) {
      const int marks =
          static_cast<int>(action.type) << 2 | int{action.awaits} << 1 | int{action.overlaps_next};
      hash.add(std::int64_t{marks})
          .add(std::int64_t{action.stage} << 32 | std::int64_t{action.microbatch + 1});
    }
  }
  return hash.value();
}

std::vector<int> looped_placement(int devices, int chunks) {
  std::vector<int> result;
  for (int stage = 0; stage < devices * chunks; ++stage) result.push_back(stage % devices);
  return result;
}

std::vector<int> v_placement(int devices, int chunks) {
  std::vector<int> result;
  for (int stage = 0; stage < devices * chunks; ++stage) {
    const int within = stage % devices;
    result.push_back(stage / devices % 2 == 0 ? within : devices - 1 - within);
  }
  return result;
}

}  // namespace weft::pipeline
