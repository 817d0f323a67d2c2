// After warm-up a step allocates nothing from the heap. The long trial is tests/soak.sh allocations.

#include <gtest/gtest.h>

#include <array>

#include "support/heap_watch.hpp"
#include "support/steady_trainings.hpp"
#include "weft/core/recycled.hpp"

namespace weft::test {
namespace {

class Steady : public testing::TestWithParam<std::tuple<SteadyTraining, RankKind>> {};

TEST_P(Steady, TakesNothingFromTheHeap) {
  const auto& [training, kind] = GetParam();
  constexpr int steps = 50;
  EXPECT_EQ(allocations_of(training, kind, steps), 0U) << heap_watch::report();
}

std::string name_of(const testing::TestParamInfo<Steady::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + name(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Trainings, Steady,
                         testing::Combine(testing::ValuesIn(steady_trainings()),
                                          testing::Values(RankKind::threads, RankKind::host)),
                         name_of);

// The first steps used one of these blocks at a time.
TEST(RecycledCount, AStepFindsAsManyBlocksAsItTakesInAll) {
  constexpr std::size_t bytes = 700;
  constexpr std::size_t count = 1000;
  const RecycledCount taken;
  for (std::size_t i = 0; i < count; ++i) Recycled::give_back(Recycled::take(bytes), bytes);
  taken.reserve();
  std::array<void*, count> blocks{};
  heap_watch::begin();
  for (void*& block : blocks) block = Recycled::take(bytes);
  EXPECT_EQ(heap_watch::end(), 0U) << heap_watch::report();
  for (void* const block : blocks) Recycled::give_back(block, bytes);
}

// The heap watch itself works; otherwise the other tests prove nothing.
TEST(HeapWatch, CountsOnEveryThreadAndSaysWho) {
  heap_watch::begin();
  std::thread([] { std::make_unique<int>(1); }).join();
  const auto taken = heap_watch::end();
  EXPECT_GE(taken, 2U) << "the thread's and what it took";
  EXPECT_NE(heap_watch::report().find("times by"), std::string::npos);
}

}  // namespace
}  // namespace weft::test
