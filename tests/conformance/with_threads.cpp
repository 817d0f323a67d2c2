// The suite over `self` and `threads`: 1, 2, 3, 4, 5 and 8 ranks, with reachable and with private memory.

#include <gtest/gtest.h>

#include "conformance/ranks.hpp"
#include "conformance/values.hpp"

namespace weft::test {

void on_ranks(const std::function<void(Communicator)>& body) {
  for (const int ranks : few_under_tsan<int>({1, 2, 3, 4, 5, 8}, 3)) {
    choose_lengths(ranks);
    for (const bool shared_memory : {true, false}) {
      SCOPED_TRACE(text(ranks, " ranks, ", shared_memory ? "shared" : "private", " memory"));
      run_as_threads(ranks, body, {.shared_memory = shared_memory});
    }
  }
}

}  // namespace weft::test
