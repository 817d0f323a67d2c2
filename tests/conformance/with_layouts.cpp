// The suite over nodes of unequal numbers of ranks: ranks as threads that believe to be on them.

#include <gtest/gtest.h>

#include "conformance/ranks.hpp"
#include "conformance/values.hpp"
#include "support/ranks_on_nodes.hpp"

namespace weft::test {

void on_ranks(const std::function<void(Communicator)>& body) {
  choose_lengths(0);
  long_length = 40'003;  // some segments of a flow, and some chunks of staging space
  const auto layouts = few_under_tsan<std::vector<std::string>>({{"a", "a", "b", "b", "c"},
                                                                 {"a", "b", "a", "b", "a"},
                                                                 {"a", "b", "b", "b"},
                                                                 {"a", "b", "c", "c", "b", "d", "d"}},
                                                                2);
  for (const std::vector<std::string>& nodes : layouts) {
    std::string names;
    for (const std::string& node : nodes) names += node;
    SCOPED_TRACE(names);
    run_on_nodes(nodes, body);
  }
}

}  // namespace weft::test
