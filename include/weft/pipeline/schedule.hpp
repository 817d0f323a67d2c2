#pragma once
// A pipeline's schedule as a plain value: what every device does, in order. Generators, the verifier, the
// simulation and the executor share nothing but this type.
//
//   Schedule plan = one_f_one_b({.devices = 4, .microbatches = 8, .costs = profile});
//   verify(plan, problem);                            // throws, and names the entry
//   std::cout << plan;                                // a line per device; parse_schedule reads it back
//
// A model is cut into stages 0 to S - 1 in order. A device has one stage or several ("chunks"). A schedule
// has no times: two with the same rows are equal, whatever their stages cost.

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "weft/pipeline/action.hpp"

namespace weft::pipeline {

struct Schedule {
  std::string name;  ///< which generator made it; not compared
  int microbatches = 0;
  std::vector<int> device_of;             ///< of each stage
  std::vector<std::vector<Action>> rows;  ///< of each device, in the order of execution

  int stages() const { return static_cast<int>(device_of.size()); }
  int devices() const { return static_cast<int>(rows.size()); }
  std::int64_t actions() const;
  /// The stages of a device, ascending.
  std::vector<int> stages_of(int device) const;
  /// Equal schedules have equal hashes: ranks compare them before step 1.
  std::uint64_t hash() const;

  friend bool operator==(const Schedule& a, const Schedule& b) {
    return a.microbatches == b.microbatches && a.device_of == b.device_of && a.rows == b.rows;
  }
};

/// Stage s on device s mod p, chunk after chunk (Narayanan et al. 2021).
std::vector<int> looped_placement(int devices, int chunks = 1);
/// Forth and back: 0 ... p-1, p-1 ... 0, ... so that the last stage of a chunk and the first of the next
/// share a device (Qi et al. 2024).
std::vector<int> v_placement(int devices, int chunks = 2);

/// Prints weft's text form: the lines "schedule NAME", "microbatches M" and "placement 0 1 1 0", then a line
/// "device D: ..." for each device.
std::ostream& operator<<(std::ostream& out, const Schedule& schedule);
/// Reads that form. @throws Error (usage), which names line and column
Schedule parse_schedule(std::string_view text);

}  // namespace weft::pipeline
