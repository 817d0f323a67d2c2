// The suite through weft.h, over whatever launched this program. Every rank runs every test; a rank that fails makes the launcher fail.

#include <gtest/gtest.h>

#include <iostream>

#include "conformance/ranks.hpp"
#include "conformance/values.hpp"

namespace weft::test {
namespace {

std::optional<Communicator> everybody;

/// Prints what failed, on a rank that prints nothing else. GoogleTest calls it with its lock held.
class Failures final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    std::cerr << "rank " << everybody->rank() << ": " << part.file_name() << ':' << part.line_number() << ": "
              << part.message() << std::endl;
  }
};

}  // namespace

void on_ranks(const std::function<void(Communicator)>& body) {
  choose_lengths(everybody->size());
  body(*everybody);
}

}  // namespace weft::test

int main(int argc, char** argv) {
  using namespace weft::test;
  testing::InitGoogleTest(&argc, argv);
  weft_world_t world = nullptr;
  weft_comm_t comm = nullptr;
  if (weft_world_from_environment(nullptr, &world) != WEFT_OK ||
      weft_comm_connect(world, nullptr, &comm) != WEFT_OK) {
    std::cerr << weft_error() << '\n';
    return weft_exit_code(weft_last_status());
  }
  everybody.emplace(comm);
  if (argc > 1 && !everybody->backend().starts_with(argv[1])) {
    std::cerr << "expected backend " << argv[1] << ", got " << everybody->backend() << '\n';
    return 1;
  }
  if (everybody->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (!testing::FLAGS_gtest_list_tests) {
      delete listeners.Release(listeners.default_result_printer());
      listeners.Append(new Failures);
    }
  }
  const int failed = RUN_ALL_TESTS();
  everybody.reset();
  return weft_world_free(world) == WEFT_OK ? failed : 1;
}
