#pragma once
// The files that a watch reads as they grow: logs, flight records and what NCCL's Inspector writes.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch_options.hpp"
#include "weft-report/ras/judge.hpp"

namespace weft::report {

/// What the files of one kind say now.
struct SourceRead {
  std::string name{};                                      ///< "logs"
  std::optional<std::vector<ras::RasFinding>> findings{};  ///< none: what they said before
  std::vector<std::string> problems{};  ///< what keeps files from being read; each is said once
};

class WatchSources {
 public:
  /// Those that the options name.
  explicit WatchSources(const WatchOptions& options);
  ~WatchSources();
  WatchSources(const WatchSources&) = delete;
  WatchSources& operator=(const WatchSources&) = delete;

  /// Adds what was written to standard input, which is read as a log.
  void hear(std::string_view piece);

  /// Reads what has changed, and seldom enough to cost next to nothing. @param now seconds, which only rise @param last whether no look follows
  std::vector<SourceRead> look(double now, double patience, bool last);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::report
