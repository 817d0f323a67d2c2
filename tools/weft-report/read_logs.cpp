#include "read_logs.hpp"

#include <iostream>

#include "print.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

/// @throws Error (usage) if nothing in the files is NCCL's, or of a tool that a rule knows
void require_log(const nccl::Job& job, const std::vector<std::string>& notes) {
  if (job.nccl_lines + job.known_lines + job.documents.taken > 0) return;
  if (job.lines == 0)
    throw Error(ErrorKind::usage, notes.empty() ? "the logs are empty" : notes.front(),
                "name the logs of the ranks");
  throw Error(ErrorKind::usage, text("none of ", job.lines, " lines is one of NCCL"),
              "run the job with NCCL_DEBUG=INFO, and name the files that hold what its ranks print");
}

}  // namespace

ReadLogs read_logs(const std::vector<std::string>& paths) {
  ReadLogs logs;
  logs.skipped = logs.log.read(paths);
  require_log(logs.log.job(), logs.skipped);
  for (const std::string& note : logs.skipped) std::cerr << text("weft-report: ", one_line(note), "\n");
  return logs;
}

}  // namespace weft::report
