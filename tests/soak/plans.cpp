// Plans of jobs drawn at random: what weft-plan scale predicts for each holds together (unit/tools/weft-plan/drawn_plans.hpp).
//
//   soak_plans SEED COUNT    ends with 0 when all held

#include <cstdio>
#include <cstdlib>

#include "unit/tools/weft-plan/drawn_plans.hpp"

int main(int argc, char** argv) {
  using namespace weft;
  if (argc != 3) {
    std::fprintf(stderr, "usage: soak_plans SEED COUNT\n");
    return 42;
  }
  const std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  int failed = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    test::Draw draw(seed * 1'000'003 + i);
    const std::string problem = what_fails(test::draw_plan(draw));
    if (problem.empty()) continue;
    std::printf("plan %llu of seed %llu: %s\n", static_cast<unsigned long long>(i),
                static_cast<unsigned long long>(seed), problem.c_str());
    ++failed;
  }
  std::printf("%llu plans, %d failed\n", static_cast<unsigned long long>(count), failed);
  return failed == 0 ? 0 : 1;
}
