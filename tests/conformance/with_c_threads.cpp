// The suite through weft.h, over `self` and `threads`.

#include <gtest/gtest.h>

#include "conformance/ranks.hpp"
#include "conformance/values.hpp"

namespace weft::test {

void on_ranks(const std::function<void(Communicator)>& body) {
  for (const int ranks : few_under_tsan<int>({2, 4}, 1)) {
    choose_lengths(ranks);
    for (const int private_memory : {0, 1}) {
      SCOPED_TRACE(text(ranks, " ranks, ", private_memory == 0 ? "shared" : "private", " memory"));
      weft_threads_options_t options{};
      options.size = sizeof options;
      options.private_memory = private_memory;
      const auto of_a_rank = [](weft_comm_t comm, void* context) -> weft_status_t {
        try {
          (*static_cast<const std::function<void(Communicator)>*>(context))(Communicator(comm, nullptr));
          return WEFT_OK;
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
          return WEFT_INTERNAL;
        }
      };
      check(weft_comm_run_as_threads(ranks, &options, of_a_rank,
                                     const_cast<std::function<void(Communicator)>*>(&body)));
    }
  }
}

}  // namespace weft::test
