// A pipeline's costs, which weft-plan schedule reads from a file.

#include "fuzz/expect_refused.hpp"
#include "fuzz/memory_file.hpp"
#include "schedule_options.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const test::MemoryFile file(data, size);
  test::taken_or_refused([&] {
    const plan::ScheduleCommand command =
        plan::parse_schedule_command({"--profile", file.path(), "--microbatches", "4", "--name", "1f1b"});
    const int devices = command.problem.devices;
    if (devices < 1 || devices > 64 ||
        command.problem.costs.stages.size() % static_cast<std::size_t>(devices) != 0)
      return;  // the command refuses it later
    const auto chunks =
        static_cast<int>(command.problem.costs.stages.size() / static_cast<std::size_t>(devices));
    pipeline::expect_valid(command.problem, pipeline::looped_placement(devices, chunks));
    test::expect(command.problem.costs.hops.size() + 1 == command.problem.costs.stages.size(),
                 "a hop lies between two stages");
  });
  return 0;
}
