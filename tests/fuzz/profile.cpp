// A pipeline's costs, which weft-plan schedule reads from a file.

#include "fuzz/expect_refused.hpp"
#include "fuzz/memory_file.hpp"
#include "pipeline_profile.hpp"
#include "weft/pipeline/schedule.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const test::MemoryFile file(data, size);
  test::taken_or_refused([&] {
    pipeline::Problem problem = plan::read_pipeline_profile(file.path());
    problem.microbatches = 4;
    const int devices = problem.devices;
    if (devices < 1 || devices > 64 || problem.costs.stages.size() % static_cast<std::size_t>(devices) != 0)
      return;  // the command refuses it later
    const auto chunks = static_cast<int>(problem.costs.stages.size() / static_cast<std::size_t>(devices));
    pipeline::expect_valid(problem, pipeline::looped_placement(devices, chunks));
    test::expect(problem.costs.hops.size() + 1 == problem.costs.stages.size(),
                 "a hop lies between two stages");
  });
  return 0;
}
