// The suite over whatever launched this program: one communicator of all ranks, and its memory kinds. Every
// rank runs every test; a rank that fails makes the launcher fail.

#include <gtest/gtest.h>

#include <iostream>

#include "conformance/ranks.hpp"
#include "conformance/values.hpp"
#include "weft/core/error.hpp"

namespace weft::test {
namespace {

std::optional<Communicator> everybody;

}  // namespace

void on_ranks(const std::function<void(Communicator)>& body) {
  choose_lengths(everybody->size());
  body(*everybody);
}

}  // namespace weft::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    weft::test::everybody = weft::connect(weft::World::from_environment());
    if (argc > 1 && !weft::test::everybody->backend().starts_with(argv[1])) {
      std::cerr << "expected backend " << argv[1] << ", got " << weft::test::everybody->backend() << '\n';
      return 1;
    }
    if (weft::test::everybody->rank() != 0) {
      auto& listeners = testing::UnitTest::GetInstance()->listeners();
      if (!testing::FLAGS_gtest_list_tests) delete listeners.Release(listeners.default_result_printer());
    }
    const int failed = RUN_ALL_TESTS();
    weft::test::everybody.reset();
    return failed;
  } catch (const weft::Error& error) {
    std::cerr << error.what() << '\n';
    return weft::exit_code(error.kind());
  }
}
