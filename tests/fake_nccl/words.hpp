#pragma once
// What is to go wrong, and what was done: wishes of a test in the same process, else the words of WEFT_FAKE_NCCL.

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/nccl/api.hpp"
#include "fake_nccl/observer.hpp"

namespace weft::fake_nccl {

using detail::nccl::Result;

/// One a process.
struct Wishes {
  static constexpr std::size_t most_ranks = 16;

  std::atomic<int> version{detail::nccl::version_code(2, 28, 9)};
  std::atomic<bool> non_blocking{false};  ///< as NCCL_COMM_BLOCKING=0
  std::atomic<int> stuck{-1};             ///< the calls of this rank wait until they are aborted
  std::atomic<bool> reachable{
      true};                       ///< whether peers can be reached through windows; without, NCCL gives none
  std::atomic<int> generation{0};  ///< calls that wait end when it changes
  std::array<std::atomic<Result>, most_ranks> states{};  ///< what a rank's communicators report

  std::atomic<int> communicators{0};
  std::atomic<int> registered{0};
  std::atomic<int> windows{0};
  std::atomic<int> blocks{0};  ///< of NCCL's allocator

  std::mutex mutex;  ///< of what follows
  std::map<std::string, Result> refusals;
  Observer observer;  ///< is asked for each communicator; may be empty
  std::map<int, std::vector<std::pair<std::string, int>>>
      handed_over;  ///< by rank: communicators, and numbers of their collectives
};
Wishes& wishes();

int version();
bool deaths_are_silent();
/// What this function is to answer; aborts the process where it is told to.
Result wanted_fault(const char* function);
/// As NCCL's WARN: to standard error under NCCL_DEBUG, and what ncclGetLastError tells.
void say(const char* what);
const char* last_said();

}  // namespace weft::fake_nccl
