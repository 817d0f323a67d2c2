#pragma once
// What NCCL's Inspector wrote about a job, and what follows from it. Pure.
//
//   const Job job = read_folder("nccl-inspector-1234");
//   const Conclusions all = conclude(job, {});
//   for (const Named& one : all.findings) std::cout << one.finding.verdict << '\n';
//
// Causes: straggler (a rank, or all ranks of a host, differs from all others), collective-slower (a size takes longer from some operation on),
// bandwidth-low, one-nic-of-several, socket-speed and size-falls-off (as the judge of nccl-tests' tables gives them), and as notices
// inspector-ranks-missing, inspector-operations-lost and inspector-timed-by-cpu.

#include <cstdint>
#include <string>
#include <vector>

#include "common/findings/report.hpp"
#include "weft-report/inspector/rows.hpp"
#include "weft-report/nccl/judge.hpp"

namespace weft::report::inspector {

/// A finding, and the ranks that it names.
struct Named {
  Finding finding{};
  std::string communicator{};  ///< whose ranks; empty: none are named
  std::vector<std::int64_t> ranks{};
};

struct Conclusions {
  std::vector<Named> findings{};          ///< most important first
  std::vector<Comparison> comparisons{};  ///< one for each communicator
  std::vector<SizeRow> rows{};
  nccl::Job judged{};  ///< of the logs that were named beside the folder, with Inspector's tables

  std::vector<Finding> plain() const;
};

/// @param beside facts of logs and topologies, which state links; an empty one: there are none @param gpu name of the GPUs; empty: not known
Conclusions conclude(const Job& job, nccl::Job beside, const std::string& gpu = {});

/// "2026-11-28 09:15:00 UTC"; 0: empty
std::string time_text(std::uint32_t seconds);
/// "1.20 ms"
std::string time_taken(double microseconds);

/// Tables for people.
std::vector<TextTable> tables(const Job& job, const Conclusions& all);
/// Curves of bandwidth over the run, and the ranks beside each other.
std::vector<PageSection> sections(const Job& job, const Conclusions& all);

}  // namespace weft::report::inspector
