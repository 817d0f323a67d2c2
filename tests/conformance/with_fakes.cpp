// The suite over the NCCL backend with a fake NCCL and a fake CUDA: the backend's logic, not the libraries'.

#include <gtest/gtest.h>

#include "conformance/ranks.hpp"
#include "support/ranks_with_fakes.hpp"

namespace weft::test {

void on_ranks(const std::function<void(Communicator)>& body) {
  const WithFakeCuda cuda;
  FakeNcclRanks nccl;
  for (const bool non_blocking : {false, true}) {
    nccl.non_blocking = non_blocking;
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(text(ranks, " ranks", non_blocking ? ", NCCL_COMM_BLOCKING=0" : ""));
      run_with_fakes(nccl, ranks, body);
    }
  }
  EXPECT_EQ(nccl.communicators, 0);
  EXPECT_EQ(nccl.windows, 0);
}

}  // namespace weft::test
