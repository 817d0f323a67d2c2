#pragma once
// Says what is wrong with a job that runs NCCL, from the logs of its ranks.
//
//   nccl::JobLog log;
//   log.read({"logs/", "-"});
//   for (const Finding& finding : nccl::examine(log.job())) std::cout << finding.verdict << '\n';
//
// Logs of all ranks belong into one JobLog: many causes show only where hosts are compared. The ranks may stand in one stream, mixed.
// WRONG: logs of two jobs at once; their settings and versions differ, and that is then reported.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/nccl/job.hpp"

namespace weft::report::nccl {

/// Gathers facts line by line, in memory that does not grow with the logs. Documents are read whole (documents/documents.hpp).
class JobLog {
 public:
  JobLog();
  ~JobLog();
  JobLog(JobLog&&) noexcept;
  JobLog& operator=(JobLog&&) noexcept;

  /// @param paths files, folders, - for standard input. @return a line for each file that could not be read, was empty or no text
  /// @throws Error (usage) for a path that is not there
  std::vector<std::string> read(const std::vector<std::string>& paths);
  /// @param file as evidence names it. @return what was wrong with a document; empty: nothing
  std::string add(std::string_view content, const std::string& file);
  const Job& job() const;

 private:
  friend class LogFeed;
  struct Gatherer;
  std::unique_ptr<Gatherer> gatherer_;
};

/// A log that comes in pieces while its job runs. The JobLog takes each line when its line feed has come, and has to outlive the feed.
class LogFeed {
 public:
  /// @param file as evidence names it
  LogFeed(JobLog& log, std::string file);
  ~LogFeed();
  LogFeed(const LogFeed&) = delete;
  LogFeed& operator=(const LogFeed&) = delete;

  void add(std::string_view piece);
  /// No more comes: what follows the last line feed is a line, too. @returns whether anything did
  bool finish();

 private:
  std::unique_ptr<class LineCutter> lines_;
};

/// What the logs had to say anything about, and which subsystems of NCCL_DEBUG_SUBSYS would add to it. For jobs without a finding: nothing
/// wrong may mean that nothing was said.
std::string what_was_looked_at(const Job& job);

/// The most important first: by severity, then confidence.
std::vector<Finding> examine(const Job& job);

}  // namespace weft::report::nccl
