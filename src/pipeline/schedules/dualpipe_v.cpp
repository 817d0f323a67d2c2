// DualPipe-V (DeepSeek-AI 2025): two chunks placed as a V, and a forward of one chunk runs together with a
// backward of the other. Each device writes its row in the eight steps of DeepSeek's code: forwards of the
// first chunk, forwards of both, I + W + F, the steady pairs, backward pairs, backwards that are split from
// half of them on, W + I, and the weight gradients that are left.

#include <deque>
#include <utility>

#include "pipeline/schedules/named.hpp"
#include "pipeline/simulate/held_memory.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {
namespace {

/// Writes the row of one device.
class DualPipeRow {
 public:
  DualPipeRow(std::vector<Action>& row, const Problem& problem, int device)
      : row_(row),
        first_(row, device),
        second_(row, 2 * problem.devices - 1 - device),
        device_(device),
        behind_(problem.devices - device - 1),
        main_(problem.microbatches - 2 * problem.devices + device + 1) {}

  void write() {
    repeat(2 * behind_, [&] { first_.forward(); });
    repeat(device_ + 1, [&] {
      first_.forward();
      second_.forward();
    });
    repeat(behind_, [&] {
      input(second_);
      weight();
      second_.forward();
    });
    steady();
    repeat(behind_, [&] {
      second_.backward();
      together(second_, first_);
    });
    drain();
    repeat(behind_, [&] {
      weight();
      input(first_);
    });
    while (!weights_.empty()) weight();
  }

 private:
  template <class Step>
  static void repeat(int times, Step step) {
    for (int i = 0; i < times; ++i) step();
  }

  void steady() {
    for (int i = 0; i < main_; ++i) {
      if (i == 0 && behind_ == 0) {  // on the last device the two chunks meet: apart, they start earlier
        first_.forward();
        second_.backward();
      } else {
        together(first_, second_);
      }
      together(second_, first_);
    }
  }

  /// Whole backwards first; from half of them on, input gradients alone.
  void drain() {
    const int half = (device_ + 1) / 2;
    bool split = false;
    for (int i = 0; i <= device_; ++i) {
      split = split || (i == half && device_ % 2 == 1);
      backward(second_, split);
      split = split || (i == half && device_ % 2 == 0);
      backward(first_, split);
    }
  }

  void together(StageRow& forward, StageRow& backward) {
    forward.forward();
    row_.back().overlaps_next = true;
    backward.backward();
  }

  void backward(StageRow& chunk, bool split) {
    if (split)
      input(chunk);
    else
      chunk.backward();
  }

  void input(StageRow& chunk) {
    weights_.emplace_back(&chunk, chunk.backwards());
    chunk.input();
  }

  void weight() {
    weights_.front().first->weight(weights_.front().second);
    weights_.pop_front();
  }

  std::vector<Action>& row_;
  StageRow first_, second_;
  int device_, behind_, main_;
  std::deque<std::pair<StageRow*, int>> weights_;  // whose I is written and whose W is not
};

Schedule in_pairs(const Problem& problem, std::vector<int> placement) {
  Schedule schedule = empty_schedule("dualpipe-v", problem, std::move(placement), 3);
  for (int device = 0; device < problem.devices; ++device)
    DualPipeRow(schedule.rows[static_cast<std::size_t>(device)], problem, device).write();
  return schedule;
}

}  // namespace

std::optional<Refusal> dualpipe_v_refusal(const Problem& problem) {
  if (auto refused = unless_chunks("dualpipe-v", problem, 2, 2)) return refused;
  if (problem.microbatches < 2 * problem.devices)
    return Refusal{text("dualpipe-v takes ", 2 * problem.devices, " microbatches or more on ",
                        problem.devices, " devices, and there are ", problem.microbatches),
                   "give more, or take zb-v, which has no such bound"};
  if (problem.memory_limit.empty()) return std::nullopt;
  const Schedule schedule = in_pairs(problem, v_placement(problem.devices));
  return unless_fits("dualpipe-v", problem, peaks(schedule, problem));
}

}  // namespace detail

Schedule dualpipe_v(const Problem& problem) {
  return detail::in_pairs(
      problem, detail::accepted(problem, v_placement(problem.devices), detail::dualpipe_v_refusal));
}

}  // namespace weft::pipeline
