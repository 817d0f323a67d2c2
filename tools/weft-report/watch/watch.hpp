#pragma once
// Follows a job that runs: what is new, what is over, and what stands.
//
//   Watch watch(30);                                                     // seconds without progress that are an alarm
//   for (const std::string& line : watch.answered(seconds, answer)) std::cout << line << '\n';
//   return exit_status(watch.findings());
//
// WRONG: answers of two jobs in one Watch; a communicator of one is missing in the other.

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weft-report/ras/judge.hpp"
#include "weft-report/watch/ranks.hpp"

namespace weft::report {

class Watch {
 public:
  /// @param patience how many seconds a rank that others wait for may stand still
  explicit Watch(double patience) : patience_(patience), ranks_(patience) {}

  /// @param now seconds, which only rise. @returns a line for each change, also of those below
  std::vector<std::string> answered(double now, ras::Answer answer);
  std::vector<std::string> missed(const std::string& why);
  /// What the ranks of a job of weft serve, one look for each.
  std::vector<std::string> looked(double now, const std::vector<RankLook>& looks);
  /// What `source` ("logs", "flight records") says now, in place of what it said before.
  std::vector<std::string> read(const std::string& source, const std::vector<Finding>& findings);

  /// The same with ranks, and with notices.
  std::vector<std::string> found(const std::string& source, const std::vector<ras::RasFinding>& findings);

  /// What stands, most important first.
  std::vector<Finding> findings() const;
  /// The same, those of RAS with ranks and processes.
  std::vector<ras::RasFinding> standing() const;
  const std::optional<ras::Answer>& last() const { return last_; }
  int answers() const { return answers_; }
  /// How often in a row nobody answered.
  int misses() const { return misses_; }
  const RanksWatch& ranks() const { return ranks_; }
  /// Whether a process of the job answered when it was last asked.
  bool is_up() const { return (answers_ > 0 && misses_ == 0) || ranks_.answered() > 0; }

 private:
  using Standing = std::map<std::string, ras::RasFinding>;  // by what makes a finding the same one

  bool is_alarm(const ras::RasFinding& one, const std::string& key, bool compared) const;
  static std::vector<std::string> replace(Standing& standing, Standing now);

  double patience_;
  RanksWatch ranks_;
  int answers_ = 0;
  int misses_ = 0;
  std::deque<std::pair<double, ras::Answer>> history_{};  // from the newest that is older than patience on
  std::set<std::string> seen_{};                          // keys of the answer before
  Standing of_ras_{};
  std::map<std::string, Standing> of_sources_{};
  std::optional<ras::Answer> last_{};
};

}  // namespace weft::report
