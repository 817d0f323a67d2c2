#pragma once
// What the verifier knows of a stage as it goes through the row of its device.

#include <cstdint>

#include "pipeline/verify/marks.hpp"

namespace weft::pipeline::detail {

enum class Parameters : std::uint8_t { always_whole, sharded, gathering, whole };

struct Stage {
  Parameters parameters = Parameters::always_whole;
  Mark marks = 0;  ///< of what is not of a microbatch
  int ended = 0;   ///< microbatches whose last backward ran
  Bytes activation = 0, kept_for_weight = 0;
  /// Where its input and its output's gradient come from.
  enum From : std::uint8_t { nowhere, this_device, another } input = nowhere, gradient = nowhere;

  /// What a microbatch that went as far as `seen` has on the device, or would, were it not on the host.
  Bytes held(Mark seen) const {
    return (seen & mark(ActionType::backward_input)) != 0 ? kept_for_weight : activation;
  }
};

/// That nothing is missing at the end of a device's row, and nothing posted that is never awaited.
std::optional<Fault> check_end(const Schedule& schedule, Marks& marks, int device,
                               const std::vector<Stage>& stages);

}  // namespace weft::pipeline::detail
