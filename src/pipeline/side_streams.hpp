#pragma once
// What goes on beside a device's computation and its messages, while a schedule is simulated: gathers of
// parameters, reductions of gradients, copies to the host and back. Each kind has a stream of its own on each
// device, which takes what is posted in order.

#include <array>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

class SideStreams {
 public:
  SideStreams(const Schedule& schedule, const Problem& problem);

  static bool has(ActionType type) {
    return type == ActionType::unshard || type == ActionType::reshard ||
           type == ActionType::reduce_gradients || type == ActionType::offload || type == ActionType::load;
  }
  void post(const Action& action, Nanoseconds when);
  /// When what was posted is through; it must have been posted.
  Nanoseconds through(const Action& action) const { return through_[index(action)]; }
  Nanoseconds cost(const Action& action) const;

 private:
  std::size_t index(const Action& action) const;

  const Schedule& schedule_;
  const Problem& problem_;
  bool copies_ = false;  // whether anything is kept by microbatch
  std::vector<Nanoseconds> through_;
  std::vector<std::array<Nanoseconds, 3>> free_;  // of each device: gathers, reductions, copies
};

}  // namespace weft::pipeline::detail
