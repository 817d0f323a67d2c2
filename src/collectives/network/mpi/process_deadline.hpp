#pragma once
// A deadline for calls that know none and cannot be called back, such as MPI_Init_thread while another process of the
// job is stopped. When it passes, the process says who it is and in which call, and ends with the status of a timeout:
// nothing less ends such a call, and the launcher ends the other ranks.
//
//   const ProcessDeadline deadline("rank 1 (process 77 on node3)", "MPI_Init_thread", std::chrono::seconds(120),
//                                 env::connect_timeout);
//   MPI_Init_thread(...);                   // the end of the block takes the deadline back

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "weft/core/env.hpp"

namespace weft::detail {

class ProcessDeadline {
 public:
  /// @param setting the variable that sets `allowed`, for the message
  ProcessDeadline(std::string who, std::string call, std::chrono::nanoseconds allowed,
                  const env::Variable& setting);
  ~ProcessDeadline();
  ProcessDeadline(const ProcessDeadline&) = delete;
  ProcessDeadline& operator=(const ProcessDeadline&) = delete;

 private:
  void watch();

  const std::string who_;
  const std::string call_;
  const std::chrono::nanoseconds allowed_;
  const env::Variable& setting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace weft::detail
