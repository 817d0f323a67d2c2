#pragma once
// Gathers of parameters, reductions of gradients and copies to the host of a simulated schedule. Each of the
// three kinds has a stream on each device, beside computation and messages, which executes in the order
// posted.

#include <array>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

class SideStreams {
 public:
  SideStreams(const Schedule& schedule, const Problem& problem);

  /// Whether actions of this type run on one of these streams.
  static bool has(ActionType type) {
    return type == ActionType::unshard || type == ActionType::reshard ||
           type == ActionType::reduce_gradients || type == ActionType::offload || type == ActionType::load;
  }

  void post(const Action& action, Nanoseconds when);
  /// When it ends. It must have been posted.
  Nanoseconds end_of(const Action& action) const { return ends_[index(action)]; }
  Nanoseconds cost(const Action& action) const;

 private:
  std::size_t index(const Action& action) const;

  const Schedule& schedule_;
  const Problem& problem_;
  bool copies_ = false;  // whether any activation is offloaded
  std::vector<Nanoseconds> ends_;
  std::vector<std::array<Nanoseconds, 3>> free_;  // of each device: gathers, reductions, copies
};

}  // namespace weft::pipeline::detail
