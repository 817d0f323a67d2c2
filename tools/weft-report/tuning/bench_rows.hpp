#pragma once
// What nccl-tests and weft-bench print, as times by size. Both have the same table; tags of mpirun and weft-launch may stand before each line.
//
//   const BenchRun run = BenchRun::parse(output);
//   if (!run.problem.empty()) ...          // wrong results, a time that is none, no row at all

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::report::tuning {

/// Sizes as the table has them: the larger buffer, in total.
struct Timing {
  std::uint64_t bytes = 0;
  double seconds = 0;  ///< where both were measured, the geometric mean of in place and out of place
  bool operator==(const Timing&) const = default;
};

struct BenchRun {
  std::vector<Timing> rows{};  ///< each size once, in order
  int ranks = 0;               ///< devices that the head of the table lists
  int hosts = 0;
  std::string backend{};  ///< of weft-bench: "host (UCX)"
  std::string problem{};  ///< why the run is no measurement

  static BenchRun parse(std::string_view output);
};

}  // namespace weft::report::tuning
