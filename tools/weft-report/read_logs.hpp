#pragma once
// Reads the logs of a job for commands that judge or compare them.

#include <string>
#include <vector>

#include "weft-report/nccl/nccl.hpp"

namespace weft::report {

struct ReadLogs {
  nccl::JobLog log{};
  std::vector<std::string>
      skipped{};  ///< files that could not be read, with the reason; standard error has them, too
};

/// @throws Error (usage) if nothing in the files is NCCL's, or of a tool that a rule knows
ReadLogs read_logs(const std::vector<std::string>& paths);

}  // namespace weft::report
