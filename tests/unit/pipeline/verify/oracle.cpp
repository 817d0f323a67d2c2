#include "unit/pipeline/verify/oracle.hpp"

#include <algorithm>

#include "unit/pipeline/verify/oracle_questions.hpp"
#include "weft/core/error.hpp"

namespace weft::test {
namespace {

using namespace oracle;

std::string say(const char* rule, const Action& action) {
  return text(rule, ": ", action);
}

std::string entries_belong(const Asked& asked) {
  for (int device = 0; device < asked.schedule.devices(); ++device) {
    for (int at = 0; at < asked.entries(device); ++at) {
      const Action& action = asked.entry(device, at);
      if (!asked.is_there(action.stage)) return say("no such stage", action);
      if (asked.device(action.stage) != device) return say("on another device", action);
      const bool of_stage =
          action.type == unshard || action.type == reshard || action.type == reduce_gradients;
      if (of_stage && action.microbatch != -1) return say("has a microbatch", action);
      if (!of_stage && (action.microbatch < 0 || action.microbatch >= asked.schedule.microbatches))
        return say("no such microbatch", action);
      const bool is_waited_for = action.type != forward && action.type != backward &&
                                 action.type != backward_input && action.type != backward_weight &&
                                 action.type != reshard && action.type != recompute;
      if (action.awaits && !is_waited_for) return say("cannot be awaited", action);
      if (!of_stage && asked.count(action.type, action.stage, action.microbatch, action.awaits) != 1)
        return say("not once", action);
      if (!action.overlaps_next) continue;
      if (action.type != forward || at + 1 == asked.entries(device)) return say("overlaps", action);
      const Action& next = asked.entry(device, at + 1);
      if (next.type != backward && next.type != backward_input && next.type != backward_weight)
        return say("overlaps no backward", action);
      if (next.overlaps_next) return say("overlaps a third", next);
    }
  }
  return "";
}

std::string computes_once_in_order(const Asked& asked, int stage, int microbatch) {
  const auto count = [&](ActionType type) { return asked.count(type, stage, microbatch); };
  const auto at = [&](ActionType type) { return asked.position(type, stage, microbatch); };
  const int device = asked.device(stage);
  if (count(forward) != 1) return "not one F";
  const bool in_one = count(backward) == 1 && count(backward_input) == 0 && count(backward_weight) == 0;
  const bool in_two = count(backward) == 0 && count(backward_input) == 1 && count(backward_weight) == 1;
  if (!in_one && !in_two) return "neither one B nor one I and one W";
  const ActionType gradient = asked.gradient(stage, microbatch);
  if (!asked.before(device, at(forward), at(gradient))) return "gradient before F";
  if (in_two && !asked.before(device, at(backward_input), at(backward_weight))) return "W before I";
  if (in_two && !asked.before(device, at(forward), at(backward_weight))) return "W before F";
  if (asked.is_there(stage - 1) && !asked.are_apart(stage, stage - 1) &&
      !asked.before(device, asked.position(forward, stage - 1, microbatch), at(forward)))
    return "F before that of the stage before";
  if (asked.is_there(stage + 1) && !asked.are_apart(stage, stage + 1) &&
      !asked.before(device, asked.position(asked.gradient(stage + 1, microbatch), stage + 1, microbatch),
                    at(gradient)))
    return "gradient before that of the stage behind";
  if (count(recompute) == 1 && (!asked.before(device, at(forward), at(recompute)) ||
                                !asked.before(device, at(recompute), at(gradient))))
    return "RECOMPUTE not between F and its backward";
  return "";
}

/// A value goes from one stage to a neighbour on another device.
std::string is_brought(const Asked& asked, int from, int to, int microbatch) {
  const bool up = to > from;
  const ActionType send = up ? send_forward : send_backward;
  const ActionType receive = up ? receive_forward : receive_backward;
  const ActionType made_by = up ? forward : asked.gradient(from, microbatch);
  const ActionType used_by = up ? forward : asked.gradient(to, microbatch);
  for (const bool awaits : {false, true}) {
    if (asked.count(send, from, microbatch, awaits) != 1) return "not sent and awaited once";
    if (asked.count(receive, to, microbatch, awaits) != 1) return "not received and awaited once";
  }
  const int sent = asked.position(send, from, microbatch);
  const int received = asked.position(receive, to, microbatch);
  const int there = asked.position(receive, to, microbatch, true);
  if (!asked.before(asked.device(from), asked.position(made_by, from, microbatch), sent))
    return "sent before it is made";
  if (sent > asked.position(send, from, microbatch, true)) return "send awaited before it is posted";
  if (received > there) return "receive awaited before it is posted";
  if (!asked.before(asked.device(to), there, asked.position(used_by, to, microbatch)))
    return "used before it is awaited";
  return "";
}

std::string transfers_match(const Asked& asked) {
  for (const auto& row : asked.schedule.rows) {
    for (const Action& action : row) {
      if (!is_transfer(action)) continue;
      if (!asked.is_there(other_stage(action)) || !asked.are_apart(action.stage, other_stage(action)))
        return say("no transfer is needed", action);
    }
  }
  for (int stage = 0; stage + 1 < asked.schedule.stages(); ++stage) {
    if (!asked.are_apart(stage, stage + 1)) continue;
    for (int microbatch = 0; microbatch < asked.schedule.microbatches; ++microbatch) {
      for (const bool up : {false, true}) {
        auto what = is_brought(asked, up ? stage : stage + 1, up ? stage + 1 : stage, microbatch);
        if (!what.empty()) return text(what, ": between ", stage, " and ", stage + 1, ", ", microbatch);
      }
    }
  }
  for (int from = 0; from < asked.schedule.devices(); ++from) {
    for (int to = 0; to < asked.schedule.devices(); ++to) {
      if (from == to) continue;
      const auto same = [](const Posted& a, const Posted& b) {
        return a.value_of == b.value_of && a.is_gradient == b.is_gradient && a.microbatch == b.microbatch;
      };
      if (!std::ranges::equal(posts(asked, from, to, true), posts(asked, to, from, false), same))
        return text("sends and receives in another order from ", from, " to ", to);
    }
  }
  return "";
}

std::string is_offloaded_well(const Asked& asked, int stage, int microbatch) {
  const int device = asked.device(stage);
  const int order[] = {
      asked.position(offload, stage, microbatch), asked.position(offload, stage, microbatch, true),
      asked.position(load, stage, microbatch), asked.position(load, stage, microbatch, true)};
  if (std::ranges::count(order, nowhere) == 4) return "";
  if (std::ranges::count(order, nowhere) > 0 || !std::ranges::is_sorted(order))
    return "offload, its wait, load, its wait: not in this order";
  const int computed = asked.count(recompute, stage, microbatch) == 1
                           ? asked.position(recompute, stage, microbatch)
                           : asked.position(forward, stage, microbatch);
  if (order[0] < computed) return "offloaded before it is computed";
  for (const ActionType use : {backward, backward_input, backward_weight}) {
    const int at = asked.position(use, stage, microbatch);
    if (at != nowhere && at > order[0] && asked.start(device, at) <= order[3])
      return "used while on the host";
  }
  const int last = std::max(asked.position(backward, stage, microbatch),
                            asked.position(backward_weight, stage, microbatch));
  return order[0] < last ? "" : "offloaded after its last use";
}

std::string is_whole_when_used(const Asked& asked, int stage) {
  std::vector<Action> of_stage;
  for (const Action& action : asked.row(asked.device(stage))) {
    if (action.stage == stage) of_stage.push_back(action);
  }
  const auto is_of_parameters = [](const Action& action) {
    return action.type == unshard || action.type == reshard;
  };
  if (std::ranges::none_of(of_stage, is_of_parameters)) return "";
  int moves = 0;  // unshard, its wait, reshard, and so on
  for (const Action& action : of_stage) {
    if (is_of_parameters(action)) {
      const Action expected[] = {{unshard, stage}, awaited({unshard, stage}), {reshard, stage}};
      if (!(action == expected[moves % 3])) return say("out of turn", action);
      ++moves;
    } else if ((is_compute(action.type) || action.type == recompute) && moves % 3 != 2) {
      return say("parameters are not whole", action);
    }
  }
  return moves % 3 == 1 ? "an unshard is not awaited" : "";
}

std::string reduces_once(const Asked& asked, int stage) {
  if (!asked.any_of([](const Action& action) { return action.type == reduce_gradients; })) return "";
  if (asked.count(reduce_gradients, stage) != 1 || asked.count(reduce_gradients, stage, -1, true) != 1)
    return "not reduced and awaited once";
  const int reduced = asked.position(reduce_gradients, stage);
  if (asked.position(reduce_gradients, stage, -1, true) < reduced) return "awaited before it is posted";
  for (int at = reduced; at < asked.entries(asked.device(stage)); ++at) {
    const Action& action = asked.entry(asked.device(stage), at);
    if (action.stage == stage && is_compute(action.type)) return say("after the reduction", action);
  }
  return "";
}

/// The bytes of one stage and microbatch while its device is at an entry.
Bytes held(const Asked& asked, int stage, int microbatch, int at) {
  const StageCosts& costs = asked.problem.costs.stages[static_cast<std::size_t>(stage)];
  const auto position = [&](ActionType type, bool awaits = false) {
    return asked.position(type, stage, microbatch, awaits);
  };
  const int begin = position(recompute) != nowhere ? position(recompute) : position(forward);
  const int end = std::max(position(backward), position(backward_weight));
  if (at < begin || at > end) return 0;
  if (position(offload) != nowhere && at >= position(offload, true) && at < position(load)) return 0;
  const bool has_input_gradient = position(backward_input) != nowhere && at > position(backward_input);
  return has_input_gradient ? costs.kept_for_weight : costs.activation;
}

}  // namespace

std::string broken_rule(const Schedule& schedule, const Problem& problem) {
  const Asked asked{schedule, problem};
  if (auto what = entries_belong(asked); !what.empty()) return what;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch) {
      if (auto what = computes_once_in_order(asked, stage, microbatch); !what.empty())
        return text(what, ": stage ", stage, ", microbatch ", microbatch);
      if (auto what = is_offloaded_well(asked, stage, microbatch); !what.empty())
        return text(what, ": stage ", stage, ", microbatch ", microbatch);
    }
    if (auto what = is_whole_when_used(asked, stage); !what.empty()) return text(what, ": stage ", stage);
    if (auto what = reduces_once(asked, stage); !what.empty()) return text(what, ": stage ", stage);
  }
  if (asked.has_transfers()) {
    if (auto what = transfers_match(asked); !what.empty()) return what;
  }
  for (std::size_t device = 0; device < problem.memory_limit.size(); ++device) {
    if (most_held(schedule, problem, static_cast<int>(device)) > problem.memory_limit[device])
      return text("memory of device ", device);
  }
  return can_get_stuck(asked) ? "deadlock" : "";
}

Bytes most_held(const Schedule& schedule, const Problem& problem, int device) {
  const Asked asked{schedule, problem};
  Bytes most = 0;
  for (int at = 0; at < asked.entries(device); ++at) {
    Bytes sum = 0;
    for (const int stage : schedule.stages_of(device)) {
      for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch)
        sum += held(asked, stage, microbatch, at);
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace weft::test
