#pragma once
// Who hangs, from one answer of RAS or from two of the same job.
//
//   for (const RasFinding& one : judge(answer)) std::cout << one.finding.verdict << '\n';
//   judge(later, {.before = &answer, .seconds = 10});             // tells slow from stuck
//
// One answer is a sample of a running job: counts that differ by one are a notice, and every rank at the same count is no proof that it is well.
// RAS counts what ranks launched, and not what ended; it counts no send and no receive.

#include <string>
#include <vector>

#include "weft-report/ras/answer.hpp"

namespace weft::report::ras {

struct RasFinding {
  Finding finding{};
  std::string communicator{};        ///< its name; empty: none
  std::vector<int> ranks{};          ///< the guilty ones, of the communicator
  std::vector<Process> processes{};  ///< those of them that the answer names
};

struct Earlier {
  const Answer* before = nullptr;
  double seconds = 0;  ///< between the two
};

/// Most important first. Causes: process-dead, process-unresponsive, communicator-error, communicator-incomplete, rank-behind, no-progress.
std::vector<RasFinding> judge(const Answer& answer, const Earlier& earlier = {});

/// How far the job is: the sum of all launches that the answer has, and 0 where it has none.
std::uint64_t launches(const Answer& answer);

/// What a reader asks next, in a line.
std::string next_question(const std::vector<RasFinding>& findings, const Answer& answer, bool twice);

}  // namespace weft::report::ras
