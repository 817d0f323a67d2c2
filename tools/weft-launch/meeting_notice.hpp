#pragma once
// Tells the ranks of a job that are still meeting that one of them has ended: no other process knows about a rank that ended before it arrived. If
// that is rank 0, the place where later ranks would be told is gone as well.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weft::launch {

class MeetingNotice {
 public:
  MeetingNotice() = default;
  ~MeetingNotice();
  MeetingNotice(const MeetingNotice&) = delete;
  MeetingNotice& operator=(const MeetingNotice&) = delete;

  /// Runs on its own thread, for to_notice at most; only the first call has an effect. If the ranks have met already, they accept no connection, and
  /// nobody is told. If rank 0 ended, it serves the ranks that arrive later in its place.
  /// @param environment the rank's, NAME=VALUE: where and how it was to meet the others
  /// @param how "it was killed by signal 9"
  void tell(const std::vector<std::string>& environment, int rank, const std::string& how);
  /// Whether it still does.
  bool is_telling();

 private:
  void work(const std::vector<std::string>& environment, int rank, const std::string& how);
  /// @returns false when told to end
  bool pause(std::chrono::nanoseconds time);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;  ///< it is to end
  bool is_working_ = false;
  std::thread thread_;
};

}  // namespace weft::launch
