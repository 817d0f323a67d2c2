#pragma once
// What the named schedules share: rows that are written microbatch by microbatch, and the reasons for which a
// schedule refuses a problem.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// Appends the actions of one stage to its device's row, and counts them. Each kind takes the microbatches in
/// order.
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

/// A schedule with an empty row for each device, each with room for its actions.
Schedule empty_schedule(const char* name, const Problem& problem, std::vector<int> placement,
                        int actions_of_microbatch);

/// Why a schedule does not suit a problem, and what to do about it.
struct Refusal {
  std::string problem, advice;
};

std::optional<Refusal> unless_chunks(std::string_view name, const Problem& problem, int least, int most);
/// @param needs bytes of each device
std::optional<Refusal> unless_fits(std::string_view name, const Problem& problem,
                                   const std::vector<Bytes>& needs);

/// Returns the placement if the problem is valid with it and `refusal` has no objection.
/// @throws Error (usage)
std::vector<int> accepted(const Problem& problem, std::vector<int> placement,
                          std::optional<Refusal> (*refusal)(const Problem&));

// Each schedule's own objection to a valid problem, if it has one.
std::optional<Refusal> gpipe_refusal(const Problem& problem);
std::optional<Refusal> one_f_one_b_refusal(const Problem& problem);
std::optional<Refusal> eager_one_f_one_b_refusal(const Problem& problem);
std::optional<Refusal> interleaved_one_f_one_b_refusal(const Problem& problem);
std::optional<Refusal> looped_bfs_refusal(const Problem& problem);
std::optional<Refusal> zb_h1_refusal(const Problem& problem);
std::optional<Refusal> zb_h2_refusal(const Problem& problem);
std::optional<Refusal> v_refusal(const Problem& problem);
std::optional<Refusal> dualpipe_v_refusal(const Problem& problem);
std::optional<Refusal> zero_bubble_greedy_refusal(const Problem& problem);

}  // namespace weft::pipeline::detail
