// The suite over `self` and `threads`: 1, 2, 3, 4, 5 and 8 ranks, with reachable and with private memory.

#include <gtest/gtest.h>

#include "conformance/ranks.hpp"
#include "conformance/values.hpp"

namespace weft::test {

void on_ranks(const std::function<void(Communicator)>& body) {
#if defined(__SANITIZE_THREAD__) || WEFT_ADDRESSES_ARE_WATCHED  // which look at the way, not at every length
  const std::vector<int> numbers{1, 2, 3};
  lengths = {0, 1, 65, 4099};
#else
  const std::vector<int> numbers{1, 2, 3, 4, 5, 8};
#endif
  for (const int ranks : numbers) {
    for (const bool shared_memory : {true, false}) {
      SCOPED_TRACE(text(ranks, " ranks, ", shared_memory ? "shared" : "private", " memory"));
      run_as_threads(ranks, body, {.shared_memory = shared_memory});
    }
  }
}

}  // namespace weft::test
