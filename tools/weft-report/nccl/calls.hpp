#pragma once
// Compares the collectives that ranks call, as lines of the subsystem COLL say them:
//
//   AllReduce: opCount 1a sendbuff 0x7f00 recvbuff 0x7f00 count 1024 datatype 7 op 0 root 0 comm 0x5581 [nranks=8] stream 0x5580
//
// The ranks of a communicator call the same collectives under the same opCount. What one rank called is kept under its opCount, and what
// the others call is compared with that, whether logs come mixed or one after the other. Sends and receives have no twin and are left out.
//
// Memory is bounded: of each communicator the newest `most_calls`, of all of them `most_calls_in_all`. Where one rank is further ahead than
// that, calls are not compared, and no finding comes of it.
//
// WRONG: to join communicators by address: each process has its own. They are joined by commId, or as parts of one that was split.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft-report/nccl/job.hpp"
#include "weft-report/nccl/statements.hpp"

namespace weft::report::nccl {

/// A whole line of a call; what it prints but addresses of buffers.
struct CallLine {
  Call call{};
  std::uint64_t op_count = 0;
  std::string_view buffers{};  ///< "sendbuff 0x7f00 recvbuff 0x7f00"
  std::string_view comm{};     ///< "0x5581"
  std::int64_t ranks = 0;
  bool message = false;  ///< a send or receive
};

/// @return whether `message` is a whole call. Of a line that was cut nothing is taken.
bool parse_call(std::string_view message, CallLine& into);
/// Whether `message` begins as a call does.
bool begins_call(std::string_view message);

class CallComparison {
 public:
  static constexpr std::size_t most_calls = std::size_t{1} << 14;
  static constexpr std::size_t most_calls_in_all = std::size_t{1} << 20;

  /// Compares a call, and notes in `job` what differs, and the last call of each rank. @param process its place in job.processes
  void take(const CallLine& line, const Said& said, std::size_t process, Job& job);

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct Slot {
    std::uint64_t op_count = 0;
    std::uint32_t place = 0;  // among calls of one opCount: they are of one group
    std::uint32_t ranks = 0;  // that called it so; 0: the slot is free
    Call call{};
  };
  struct Kept {
    std::uint64_t op_count = 0;
    std::uint32_t place = 0;
    std::size_t process = 0;
    Evidence evidence{};
  };
  /// What the ranks of a communicator called.
  struct Reference {
    std::vector<Slot> slots{};
    std::vector<Kept> newest{};  // lines as they stand in the log
    std::size_t next = 0;
    std::size_t difference = none;  // in job.call_differences
    std::uint32_t place_of_difference = 0;
  };
  /// Where a process is in a communicator. An entry of job.calls has the same place.
  struct Position {
    std::size_t reference = none;
    std::uint32_t place = 0;
    std::uint32_t uses = 0;
    int inits = 0;  // Process::comm_changes when it was identified
    std::string buffers{};
  };

  std::size_t position_of(const CallLine& line, std::size_t process, Job& job);
  void identify(Position& position, RankCalls& calls, const Process& owner);
  std::size_t reference_of(const RankCalls& calls);
  Slot* slot_for(Reference& reference, std::uint64_t op_count, std::uint32_t place);
  void compare(Reference& reference, const CallLine& line, std::uint32_t place, const Said& said,
               const RankCalls& calls, Job& job);
  void differ(Reference& reference, const Slot& slot, const CallLine& line, const Said& said,
              const RankCalls& calls, Job& job);
  static void add_side(CallDifference& difference, const CallLine& line, const Said& said,
                       const RankCalls& calls);

  std::vector<Position> positions_{};  // of job.calls
  std::vector<Reference> references_{};
  std::unordered_map<std::string, std::size_t> by_name_{};
  std::vector<std::vector<std::size_t>> of_process_{};  // places in positions_, the newest first
  std::size_t slots_in_all_ = 0;
};

}  // namespace weft::report::nccl
