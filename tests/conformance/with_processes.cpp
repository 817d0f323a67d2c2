// The suite over whatever launched this program: one communicator of all ranks, and its memory kinds. Every
// rank runs every test; a rank that fails makes the launcher fail.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <vector>

#include "conformance/ranks.hpp"
#include "conformance/values.hpp"
#include "weft/core/error.hpp"

namespace weft::test {
namespace {

std::optional<World> world;
std::optional<Communicator> everybody;

std::size_t mappings_of_heaps() {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    count += line.find("/memfd:weft-heap") != std::string::npos;
  return count;
}

// Its own and one of each process beside it, however many communicators there are; none where every rank has a node for itself.
TEST(CommunicatorsOfAProcess, ShareItsHeapAndWhatItHasMapped) {
  if (!everybody->device().is_host()) GTEST_SKIP() << "allocate() gives memory of the device";
  const Topology& topology = everybody->topology();
  bool are_alone = true;
  for (int node = 0; node < topology.nodes(); ++node)
    are_alone = are_alone && topology.ranks_of(node).size() == 1;
  const std::size_t heaps = are_alone ? 0 : topology.ranks_of(topology.node_of(everybody->rank())).size();
  EXPECT_EQ(mappings_of_heaps(), heaps);
  std::vector<int> all;
  for (int rank = 0; rank < everybody->size(); ++rank) all.push_back(rank);
  Communicator other = connect(World::over(world->rendezvous()->split(all), {}, world->environment()));
  Communicator part = *everybody->split(0, -everybody->rank());
  EXPECT_EQ(mappings_of_heaps(), heaps);
  Stream stream;
  for (Communicator* owner : {&*everybody, &other, &part}) {
    for (Communicator* comm : {&*everybody, &other, &part}) {
      Buffer data = owner->allocate(DataType::i64, 10'000);
      std::ranges::fill(data.as<std::int64_t>(), everybody->rank() + 1);
      comm->all_reduce(data.view(), ReduceOp::sum, stream).wait();
      const std::int64_t sum = everybody->size() * (everybody->size() + 1) / 2;
      EXPECT_TRUE(
          std::ranges::all_of(data.as<std::int64_t>(), [&](std::int64_t value) { return value == sum; }));
      comm->barrier(stream).wait();
    }
  }
  EXPECT_EQ(mappings_of_heaps(), heaps);
}

}  // namespace

/// Prints what failed, on a rank that prints nothing else. GoogleTest calls it with its lock held.
class Failures final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    std::cerr << "rank " << everybody->rank() << ": " << part.file_name() << ':' << part.line_number() << ": "
              << part.message() << std::endl;
  }
};

void on_ranks(const std::function<void(Communicator)>& body) {
  choose_lengths(everybody->size());
  body(*everybody);
}

}  // namespace weft::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    weft::test::world = weft::World::from_environment();
    weft::test::everybody = weft::connect(*weft::test::world);
    if (argc > 1 && !weft::test::everybody->backend().starts_with(argv[1])) {
      std::cerr << "expected backend " << argv[1] << ", got " << weft::test::everybody->backend() << '\n';
      return 1;
    }
    if (weft::test::everybody->rank() != 0) {
      auto& listeners = testing::UnitTest::GetInstance()->listeners();
      if (!testing::FLAGS_gtest_list_tests) {
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new weft::test::Failures);
      }
    }
    const int failed = RUN_ALL_TESTS();
    weft::test::everybody.reset();
    weft::test::world.reset();
    return failed;
  } catch (const weft::Error& error) {
    std::cerr << error.what() << '\n';
    return weft::exit_code(error.kind());
  }
}
