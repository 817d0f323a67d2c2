#pragma once
// Rows of computation, written in the order in which a stage's microbatches come: one after the other.

#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// A row to be, and how far each kind of action is in one of its stages.
class StageRow {
 public:
  StageRow(std::vector<Action>& row, int stage) : row_(&row), stage_(stage) {}

  void forward() { add(ActionType::forward, forwards_++); }
  void backward() { add(ActionType::backward, backwards_++); }
  void input() { add(ActionType::backward_input, backwards_++); }
  void weight(int microbatch) { add(ActionType::backward_weight, microbatch); }
  void weight() { weight(weights_++); }

  int stage() const { return stage_; }
  int forwards() const { return forwards_; }
  int backwards() const { return backwards_; }  ///< B and I
  int weights() const { return weights_; }      ///< those that weight() counted

 private:
  void add(ActionType type, int microbatch) { row_->push_back({type, stage_, microbatch}); }

  std::vector<Action>* row_;
  int stage_, forwards_ = 0, backwards_ = 0, weights_ = 0;
};

/// A row for each device, with room for what it will have.
inline Schedule empty_schedule(const char* name, const Problem& problem, std::vector<int> placement,
                               int actions_of_microbatch) {
  Schedule schedule;
  schedule.name = name;
  schedule.microbatches = problem.microbatches;
  schedule.device_of = std::move(placement);
  schedule.rows.resize(static_cast<std::size_t>(problem.devices));
  for (auto& row : schedule.rows)
    row.reserve(static_cast<std::size_t>(problem.microbatches) *
                static_cast<std::size_t>(actions_of_microbatch * problem.chunks()));
  return schedule;
}

}  // namespace weft::pipeline::detail
