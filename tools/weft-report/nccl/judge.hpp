#pragma once
// All tables of a job beside what its links allow, and the times that NCCL's own costs expect. What rules and pages read.

#include <optional>
#include <vector>

#include "weft-report/bandwidth/speed.hpp"
#include "weft-report/nccl/job.hpp"

namespace weft::report::bandwidth {

/// A table and what is to be said of it.
struct Judged {
  const Table* table = nullptr;  ///< of the job
  Shape shape{};
  std::string op{};  ///< empty: not known
  Speed speed{};
};

/// Tables of the logs, then those of documents. WRONG: to keep the result longer than the job.
std::vector<Judged> judge(const nccl::Job& job);

/// Links that logs and topology files state together.
Links links_of(const nccl::Job& job);

/// What is chosen for a size, by NCCL's line and by its costs, and what was measured.
struct SizeChoice {
  std::int64_t bytes = 0;
  double measured = 0;             ///< microseconds
  Choice predicted{};              ///< by the costs of the log's TUNING table
  std::optional<Choice> chosen{};  ///< by the log's line, with the time that the costs give it
  Choice other{};                  ///< the fastest beside the one that is used
  bool contradicts = false;        ///< it took twice what the costs say, and longer than the other would take
};
/// For sizes of the first table of GPUs whose operation has costs. Empty without a TUNING table.
std::vector<SizeChoice> choices_by_size(const nccl::Job& job);

}  // namespace weft::report::bandwidth
