#include "compression/step_verdict.hpp"

#include <utility>

namespace weft::detail {

bool StepVerdict::settle() {
  const std::vector<Event> done = std::exchange(done_, {});
  for (const Event& event : done) event.wait();
  return !is_bad_.exchange(false, std::memory_order_relaxed) && !done.empty();
}

}  // namespace weft::detail
