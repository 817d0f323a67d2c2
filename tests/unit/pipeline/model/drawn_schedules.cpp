#include "unit/pipeline/model/drawn_schedules.hpp"

#include <algorithm>
#include <sstream>

#include "unit/pipeline/verify/oracle.hpp"

namespace weft::test {
namespace {

using namespace pipeline;
using enum ActionType;

template <class Items>
void shuffle(Items& items, Draw& draw) {
  for (int i = static_cast<int>(items.size()) - 1; i > 0; --i)
    std::swap(items[static_cast<std::size_t>(i)], items[static_cast<std::size_t>(draw.below(i + 1))]);
}

/// Draws one of the actions that can run next, until all have run.
class Walk {
 public:
  Walk(Case& one, Draw& draw) : one_(one), draw_(draw), splits_(draw.below(3)) {
    for (int stage = 0; stage < one.schedule.stages(); ++stage) {
      for (int microbatch = 0; microbatch < one.schedule.microbatches; ++microbatch)
        to_do_.push_back({stage, microbatch, splits_ == 2 ? draw.once_in(2) : splits_ == 1, false, false});
    }
  }

  /// Calls `emit` with every action, in an order in which they can run one by one.
  void run(auto&& emit) {
    while (true) {
      std::vector<Action> ready;
      for (const Pair& pair : to_do_) add_ready(pair, ready);
      if (ready.empty()) return;
      const Action action = ready[static_cast<std::size_t>(draw_.below(static_cast<int>(ready.size())))];
      Pair& pair = of(action.stage, action.microbatch);
      if (action.type == forward) pair.has_forward = true;
      if (action.type == backward || action.type == backward_input) pair.has_gradient = true;
      if (action.type == backward || action.type == backward_weight) pair.is_done = true;
      emit(action);
    }
  }

 private:
  struct Pair {
    int stage, microbatch;
    bool is_split, has_forward, has_gradient;
    bool is_done = false;
  };

  Pair& of(int stage, int microbatch) {
    return to_do_[static_cast<std::size_t>(stage * one_.schedule.microbatches + microbatch)];
  }
  void add_ready(const Pair& pair, std::vector<Action>& ready) {
    const auto add = [&](ActionType type) { ready.push_back({type, pair.stage, pair.microbatch}); };
    if (pair.is_done) return;
    if (pair.has_gradient) {
      add(backward_weight);
    } else if (pair.has_forward) {
      if (pair.stage + 1 == one_.schedule.stages() || of(pair.stage + 1, pair.microbatch).has_gradient)
        add(pair.is_split ? backward_input : backward);
    } else if (pair.stage == 0 || of(pair.stage - 1, pair.microbatch).has_forward) {
      add(forward);
    }
  }

  Case& one_;
  Draw& draw_;
  const int splits_;
  std::vector<Pair> to_do_;
};

Case draw_frame(Draw& draw, const Size& size) {
  Case one;
  Schedule& schedule = one.schedule;
  schedule.name = "drawn";
  schedule.microbatches = size.microbatches;
  const auto placement = draw.once_in(2) ? looped_placement : v_placement;
  schedule.device_of = placement(size.devices, size.chunks);
  if (draw.once_in(4)) shuffle(schedule.device_of, draw);
  schedule.rows.resize(static_cast<std::size_t>(size.devices));
  Problem& problem = one.problem;
  problem.devices = size.devices;
  problem.microbatches = schedule.microbatches;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const Bytes activation = 1 + draw.below(9);
    problem.costs.stages.push_back({.forward = 1,
                                    .backward_input = 1,
                                    .backward_weight = 1,
                                    .activation = activation,
                                    .kept_for_weight = draw.below(static_cast<int>(activation) + 1)});
  }
  problem.costs.hops.resize(schedule.device_of.size() - 1);
  return one;
}

/// The oracle goes through all orders, so a schedule that is large in one respect is small in another.
Size draw_size(Draw& draw) {
  Size size{.devices = draw.once_in(4) ? 3 : 2};
  size.chunks = 1 + draw.below(2);
  size.microbatches = 1 + draw.below(size.devices * size.chunks > 4 ? 2 : 3);
  return size;
}

/// Rows with sends and receives that are posted together, in the order of the walk.
class WithTransfers {
 public:
  WithTransfers(Case& one, Draw& draw) : one_(one), draw_(draw), to_await_(one.schedule.rows.size()) {}

  void emit(const Action& action) {
    const int stage = action.stage;
    if (action.type == forward && comes_from_afar(stage, stage - 1))
      row(stage).push_back(awaited({receive_forward, stage, action.microbatch}));
    const bool is_gradient = action.type == backward || action.type == backward_input;
    if (is_gradient && comes_from_afar(stage, stage + 1))
      row(stage).push_back(awaited({receive_backward, stage, action.microbatch}));
    row(stage).push_back(action);
    if (action.type == forward && comes_from_afar(stage, stage + 1))
      post({send_forward, stage, action.microbatch}, {receive_forward, stage + 1, action.microbatch});
    if (is_gradient && comes_from_afar(stage, stage - 1))
      post({send_backward, stage, action.microbatch}, {receive_backward, stage - 1, action.microbatch});
    await_some(stage);
  }

  void finish() {
    for (std::size_t device = 0; device < to_await_.size(); ++device) {
      shuffle(to_await_[device], draw_);
      for (const Action& send : to_await_[device]) one_.schedule.rows[device].push_back(awaited(send));
    }
    for (Row& of_device : one_.schedule.rows) {
      for (int at = 1; at < size(of_device); ++at) hoist(of_device, at);
    }
  }

 private:
  Row& row(int stage) { return one_.row_of(stage); }
  bool comes_from_afar(int stage, int other) {
    return other >= 0 && other < one_.schedule.stages() && &row(stage) != &row(other);
  }
  std::vector<Action>& to_await(int stage) {
    return to_await_[static_cast<std::size_t>(one_.schedule.device_of[static_cast<std::size_t>(stage)])];
  }
  void post(const Action& send, const Action& receive) {
    row(send.stage).push_back(send);
    row(receive.stage).push_back(receive);
    to_await(send.stage).push_back(send);
  }
  void await_some(int stage) {
    auto& sends = to_await(stage);
    if (sends.empty() || !draw_.once_in(3)) return;
    const auto which = sends.begin() + draw_.below(static_cast<int>(sends.size()));
    row(stage).push_back(awaited(*which));
    sends.erase(which);
  }
  /// Posts a receive earlier, as long as it passes no other.
  void hoist(Row& of_device, int at) {
    const auto is_receive = [&](int i) {
      const Action& action = of_device[static_cast<std::size_t>(i)];
      return !action.awaits && (action.type == receive_forward || action.type == receive_backward);
    };
    if (!is_receive(at)) return;
    for (int steps = draw_.below(6); steps > 0 && at > 0 && !is_receive(at - 1); --steps, --at)
      std::swap(of_device[static_cast<std::size_t>(at)], of_device[static_cast<std::size_t>(at - 1)]);
  }

  Case& one_;
  Draw& draw_;
  std::vector<std::vector<Action>> to_await_;
};

ActionType gradient_type(const Row& row, int stage, int microbatch) {
  return position(row, {backward, stage, microbatch}) >= 0 ? backward : backward_input;
}

/// Calls `with` for about every second stage and microbatch.
void for_some(Case& one, Draw& draw, auto&& with) {
  for (int stage = 0; stage < one.schedule.stages(); ++stage) {
    for (int microbatch = 0; microbatch < one.schedule.microbatches; ++microbatch) {
      if (draw.once_in(2)) with(one.row_of(stage), stage, microbatch);
    }
  }
}

void add_recompute(Case& one, Draw& draw) {
  for_some(one, draw, [&](Row& row, int stage, int microbatch) {
    const int from = position(row, {forward, stage, microbatch}) + 1;
    const int to = position(row, {gradient_type(row, stage, microbatch), stage, microbatch});
    insert(row, between(draw, from, to), {recompute, stage, microbatch});
  });
}

void add_offload(Case& one, Draw& draw) {
  for_some(one, draw, [&](Row& row, int stage, int microbatch) {
    const int computed =
        std::max(position(row, {forward, stage, microbatch}), position(row, {recompute, stage, microbatch}));
    const int gradient = position(row, {gradient_type(row, stage, microbatch), stage, microbatch});
    const int weight = position(row, {backward_weight, stage, microbatch});
    const bool late = weight >= 0 && draw.once_in(3);
    const int from = (late ? gradient : computed) + 1;
    int places[4];
    for (int& place : places) place = between(draw, from, late ? weight : gradient);
    std::ranges::sort(places);
    insert(row, places[3], awaited({load, stage, microbatch}));
    insert(row, places[2], {load, stage, microbatch});
    insert(row, places[1], awaited({offload, stage, microbatch}));
    insert(row, places[0], {offload, stage, microbatch});
  });
}

void add_unshards(Case& one, Draw& draw, int stage) {
  Row& row = one.row_of(stage);
  Row result;
  bool whole = false;
  int from = 0;  // the entry after the last reshard
  for (const Action& action : row) {
    const bool uses = action.stage == stage && (is_compute(action.type) || action.type == recompute);
    if (uses && !whole) {
      insert(result, between(draw, from, size(result)), {unshard, stage});
      result.push_back(awaited({unshard, stage}));
      whole = true;
    }
    result.push_back(action);
    if (uses && whole && draw.once_in(3)) {
      result.push_back({reshard, stage});
      whole = false;
      from = size(result);
    }
  }
  row = std::move(result);
}

void add_reductions(Case& one, Draw& draw) {
  for (int stage = 0; stage < one.schedule.stages(); ++stage) {
    Row& row = one.row_of(stage);
    int last = size(row) - 1;
    const auto is_backward_of_stage = [&](const Action& action) {
      return action.stage == stage && is_backward(action.type);
    };
    while (!is_backward_of_stage(row[static_cast<std::size_t>(last)])) --last;
    const int posted = between(draw, last + 1, size(row));
    insert(row, posted, {reduce_gradients, stage});
    insert(row, between(draw, posted + 1, size(row)), awaited({reduce_gradients, stage}));
  }
}

}  // namespace

std::string Case::described() const {
  std::ostringstream out;
  out << schedule << "activation/kept:";
  for (const StageCosts& costs : problem.costs.stages)
    out << ' ' << costs.activation << '/' << costs.kept_for_weight;
  out << "\nlimits:";
  for (const Bytes limit : problem.memory_limit) out << ' ' << limit;
  out << '\n';
  return std::move(out).str();
}

Case draw_computation(Draw& draw) {
  return draw_computation(draw, draw_size(draw));
}

Case draw_computation(Draw& draw, const Size& size) {
  Case one = draw_frame(draw, size);
  Walk(one, draw).run([&](const Action& action) { one.row_of(action.stage).push_back(action); });
  return one;
}

Case draw_valid(Draw& draw) {
  Case one = draw_frame(draw, draw_size(draw));
  if (draw.once_in(3)) {
    Walk(one, draw).run([&](const Action& action) { one.row_of(action.stage).push_back(action); });
  } else {
    WithTransfers with(one, draw);
    Walk(one, draw).run([&](const Action& action) { with.emit(action); });
    with.finish();
  }
  if (draw.once_in(4)) add_recompute(one, draw);
  if (draw.once_in(3)) add_offload(one, draw);
  for (int stage = 0; stage < one.schedule.stages(); ++stage) {
    if (draw.once_in(4)) add_unshards(one, draw, stage);
  }
  if (draw.once_in(4)) add_reductions(one, draw);
  if (draw.once_in(4)) {
    add_pairs(one, draw);
    if (!broken_rule(one.schedule, one.problem).empty()) drop_pairs(one);
  }
  if (draw.once_in(2)) add_limit(one, draw);
  return one;
}

void add_pairs(Case& one, Draw& draw) {
  for (Row& row : one.schedule.rows) {
    for (std::size_t at = 0; at + 1 < row.size(); ++at) {
      const Action& next = row[at + 1];
      const bool same = next.stage == row[at].stage && next.microbatch == row[at].microbatch;
      if (row[at].type == forward && is_backward(next.type) && !same) row[at].overlaps_next = draw.once_in(2);
    }
  }
}

void drop_pairs(Case& one) {
  for (Row& row : one.schedule.rows) {
    for (Action& action : row) action.overlaps_next = false;
  }
}

void add_limit(Case& one, Draw& draw) {
  const int slack = draw.once_in(2) ? 0 : draw.below(10);
  for (int device = 0; device < one.problem.devices; ++device)
    one.problem.memory_limit.push_back(most_held(one.schedule, one.problem, device) + slack);
}

}  // namespace weft::test
