// A pipeline's costs, which weft-plan schedule reads from a file.

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/expect_refused.hpp"
#include "schedule_options.hpp"

namespace {

/// A file in memory, under a path.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    weft::test::expect(write(descriptor_, data, size) == static_cast<ssize_t>(size),
                       "a file in memory is written");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }
  std::string path() const { return weft::text("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const MemoryFile file(data, size);
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
