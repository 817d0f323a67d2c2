#pragma once
// Tells the ranks of a job that are still meeting that one of them has ended: no other process knows of a rank that ended before it came, and where
// rank 0 has, there is no place any more at which a rank that comes later could hear it.

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

  /// On a thread of its own, for to_notice at most. After the first time it does nothing. Where the ranks have met, they let no process in, and
  /// none hears it. In rank 0's stead it serves those that come later.
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
