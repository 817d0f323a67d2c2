#include "unit/pipeline/verify/mutants.hpp"

#include <algorithm>
#include <iterator>

#include "unit/pipeline/verify/oracle.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/verify.hpp"

namespace weft::test {
namespace {

using namespace pipeline;
using enum ActionType;

Action& any_entry(Row& row, Draw& draw) {
  return row[static_cast<std::size_t>(draw.below(size(row)))];
}

Row& any_row(Case& one, Draw& draw) {
  while (true) {
    Row& row = one.schedule.rows[static_cast<std::size_t>(draw.below(one.schedule.devices()))];
    if (!row.empty()) return row;
  }
}

void drop_a_wait(Row& row, Draw& draw) {
  std::vector<int> waits;
  for (int at = 0; at < size(row); ++at) {
    if (row[static_cast<std::size_t>(at)].awaits) waits.push_back(at);
  }
  if (!waits.empty())
    row.erase(row.begin() + waits[static_cast<std::size_t>(draw.below(static_cast<int>(waits.size())))]);
}

bool is_post_to_wire(const Action& action, ActionStream wire) {
  return stream_of(action.type) == wire && action.microbatch >= 0 && !action.awaits;
}

/// Posts every receive of a row right before it is awaited.
void post_late(Row& row) {
  Row result;
  for (const Action& action : row) {
    if (is_post_to_wire(action, ActionStream::wire_in) && position(row, awaited(action)) >= 0) continue;
    Action posted = action;
    posted.awaits = false;
    if (action.awaits && is_post_to_wire(posted, ActionStream::wire_in)) result.push_back(posted);
    result.push_back(action);
  }
  row = std::move(result);
}

/// Awaits a send right after it is posted: it may wait for something that was to run in between.
void await_at_once(Row& row, Draw& draw) {
  std::vector<Action> sends;
  std::ranges::copy_if(row, std::back_inserter(sends), [&](const Action& action) {
    return is_post_to_wire(action, ActionStream::wire_out) && position(row, awaited(action)) >= 0;
  });
  if (sends.empty()) return drop_a_wait(row, draw);
  const Action send = sends[static_cast<std::size_t>(draw.below(static_cast<int>(sends.size())))];
  row.erase(row.begin() + position(row, awaited(send)));
  insert(row, position(row, send) + 1, awaited(send));
}

void move_entry(Row& from, Row& to, Draw& draw) {
  const int at = draw.below(size(from));
  const Action action = from[static_cast<std::size_t>(at)];
  from.erase(from.begin() + at);
  insert(to, draw.below(size(to) + 1), action);
}

/// Moves an entry by up to `most` places, one by one.
void move_entry_from(Row& row, int at, int most, Draw& draw) {
  const int step = draw.once_in(2) ? 1 : -1;
  for (int steps = 1 + draw.below(most); steps > 0 && at + step >= 0 && at + step < size(row);
       --steps, at += step)
    std::swap(row[static_cast<std::size_t>(at)], row[static_cast<std::size_t>(at + step)]);
}

void move_entry_a_little(Row& row, Draw& draw) {
  move_entry_from(row, draw.below(size(row)), 4, draw);
}

/// An entry that is neither computation nor transfer, if there is one.
void move_rare_entry(Row& row, Draw& draw) {
  std::vector<int> rare;
  for (int at = 0; at < size(row); ++at) {
    if (row[static_cast<std::size_t>(at)].type >= unshard) rare.push_back(at);
  }
  if (rare.empty()) return move_entry_a_little(row, draw);
  move_entry_from(row, rare[static_cast<std::size_t>(draw.below(static_cast<int>(rare.size())))], 8, draw);
}

/// Drops an entry that posts and the wait for it.
void drop_with_wait(Row& row, Draw& draw) {
  Action action = any_entry(row, draw);
  action.awaits = false;
  std::erase(row, action);
  std::erase(row, awaited(action));
}

/// Any action, awaited or not.
void insert_new(Case& one, Row& row, Draw& draw) {
  Action action{static_cast<ActionType>(draw.below(action_types)), any_entry(row, draw).stage};
  if (is_of_microbatch(action.type)) action.microbatch = draw.below(one.schedule.microbatches);
  const int at = draw.below(size(row) + 1);
  insert(row, at, action);
  if (draw.once_in(2)) insert(row, between(draw, at + 1, size(row)), awaited(action));
}

/// Reorders a row, keeping the order within each microbatch and among posted transfers: most rules that one
/// row alone can break are kept.
void stir(Row& row, Draw& draw) {
  const auto is_posted_transfer = [](const Action& action) {
    return stream_of(action.type) != ActionStream::compute && action.microbatch >= 0 && !action.awaits;
  };
  for (int times = draw.below(4 * size(row)); times > 0; --times) {
    const auto at = static_cast<std::size_t>(draw.below(size(row)));
    if (at + 1 == row.size() || row[at].microbatch == row[at + 1].microbatch) continue;
    if (row[at].microbatch < 0 || row[at + 1].microbatch < 0) continue;
    if (is_posted_transfer(row[at]) && is_posted_transfer(row[at + 1])) continue;
    std::swap(row[at], row[at + 1]);
  }
}

/// Changes one row, for one stage or all.
void exchange_microbatches(Row& row, Draw& draw, int microbatches) {
  const int a = draw.below(microbatches), b = draw.below(microbatches);
  const int stage = draw.once_in(2) ? any_entry(row, draw).stage : -1;
  for (Action& action : row) {
    if (stage >= 0 && action.stage != stage) continue;
    if (action.microbatch == a) {
      action.microbatch = b;
    } else if (action.microbatch == b) {
      action.microbatch = a;
    }
  }
}

/// Posts two sends of one direction, or two receives, or both, in another order.
void exchange_transfers(Case& one, Draw& draw) {
  const int up = draw.below(2);
  const int stage = draw.below(one.schedule.stages()), other = stage + (up == 1 ? 1 : -1);
  if (other < 0 || other >= one.schedule.stages()) return;
  const int a = draw.below(one.schedule.microbatches), b = draw.below(one.schedule.microbatches);
  const int sides = draw.below(4);
  const auto exchange = [&](ActionType type, int of_stage) {
    Row& row = one.row_of(of_stage);
    const int first = position(row, {type, of_stage, a}), second = position(row, {type, of_stage, b});
    if (first >= 0 && second >= 0)
      std::swap(row[static_cast<std::size_t>(first)], row[static_cast<std::size_t>(second)]);
  };
  if (sides != 0) exchange(up == 1 ? send_forward : send_backward, stage);
  if (sides != 1) exchange(up == 1 ? receive_forward : receive_backward, other);
}

}  // namespace
void mutate(Case& one, Draw& draw) {
  Row& row = any_row(one, draw);
  Action& entry = any_entry(row, draw);
  switch (draw.below(32)) {
    case 0:
      return std::swap(entry, any_entry(row, draw));
    case 1:
      row.erase(row.begin() + draw.below(size(row)));
      return;
    case 2:
      return insert(row, draw.below(size(row) + 1), Action(entry));
    case 3:
      entry.type = static_cast<ActionType>(draw.below(action_types));
      return;
    case 4:
      entry.stage = between(draw, -1, one.schedule.stages());
      return;
    case 5:
      entry.microbatch = between(draw, -1, one.schedule.microbatches);
      return;
    case 6:
      return move_entry(row, any_row(one, draw), draw);
    case 7:
      return drop_a_wait(row, draw);
    case 8:
      return insert(row, draw.below(size(row) + 1), awaited(entry));
    case 9:
      entry.overlaps_next = !entry.overlaps_next;
      return;
    case 10:
    case 11:
      return exchange_microbatches(row, draw, one.schedule.microbatches);
    case 12:
    case 13:
      return exchange_transfers(one, draw);
    case 14:
      if (one.problem.memory_limit.empty()) return add_limit(one, draw);
      one.problem.memory_limit[static_cast<std::size_t>(draw.below(one.problem.devices))] -= draw.below(4);
      return;
    case 15:
    case 16:
    case 17:
    case 18:
      return stir(row, draw);
    case 19:
    case 20:
    case 21:
    case 22:
      return move_rare_entry(row, draw);
    case 23:
      return drop_with_wait(row, draw);
    case 24:
    case 25:
      return insert_new(one, row, draw);
    case 26:
    case 27:
      await_at_once(row, draw);
      if (draw.once_in(2)) std::ranges::for_each(one.schedule.rows, post_late);
      return;
    default:  // which may be valid
      return move_entry_a_little(row, draw);
  }
}

void try_mutant(std::uint64_t seed, Tally& tally) {
  Draw draw(seed);
  Case one = draw_valid(draw);
  const auto judge = [&](const char* what) {
    const std::string by_oracle = broken_rule(one.schedule, one.problem);
    const auto by_verifier = find_fault(one.schedule, one.problem);
    if (by_oracle.empty() == !by_verifier) return by_oracle;
    tally.differences +=
        text("seed ", seed, ", ", what, "\noracle: ", by_oracle.empty() ? "valid" : by_oracle,
             "\nverifier: ", by_verifier ? by_verifier->what : "valid", '\n', one.described());
    (by_oracle.empty() ? ++tally.wrongly_rejected : --tally.rejected);
    return by_oracle;
  };
  if (!judge("before it is mutated").empty()) {
    ++tally.unfit;
    tally.differences += text("seed ", seed, ": is not valid\n", one.described());
  }
  for (int changes = draw.one_of({1, 1, 2, 3}); changes > 0; --changes) {
    const bool has_entries =
        std::ranges::any_of(one.schedule.rows, [](const Row& row) { return !row.empty(); });
    if (has_entries) mutate(one, draw);
  }
  const std::string rule = judge("mutated");
  ++tally.mutants;
  ++(rule.empty() ? tally.valid : tally.invalid);
  if (!rule.empty()) ++tally.rejected;
  if (rule == "deadlock") ++tally.deadlocks;
}

}  // namespace weft::test
