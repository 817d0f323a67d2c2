#pragma once
// What a gathering says on the wire, whatever carries it: every rank sends rank 0 an arrival, rank 0 answers
// all of them with one verdict, either all ranks' notes or why there are none. One collector, instead of
// every rank reading every other, keeps it at two messages a rank, and every rank hears the same reason.
//
// An arrival says which process comes and how many ranks it counts. Ranks that count differently would sum
// different ranks' data without an error, so each side refuses the other.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

/// Which process a rank is, and how many ranks it counts.
struct RankIdentity {
  int rank = 0;
  int size = 0;
  std::string process;      ///< "process 77 on node3"
  std::uint64_t nonce = 0;  ///< random: two processes may have all else in common

  static RankIdentity of_this_process(int rank, int size);
  /// "rank 1 (process 77 on node3)"
  std::string name() const;
};

struct Arrival {
  RankIdentity who;
  std::string purpose;
  std::string note;

  std::string encode() const;
  /// @throws Error (mismatch) for bytes that no rank of this version sends
  static Arrival decode(int rank, const std::string& bytes);
};

/// Why ranks do not meet, for Error (mismatch).
struct Refusal {
  std::string problem;
  std::string advice;

  std::string encode() const;
  static Refusal decode(const std::string& bytes);
};
Refusal sizes_differ(const RankIdentity& one, const RankIdentity& other);
Refusal rank_is_taken(const RankIdentity& first, const RankIdentity& second);

/// What the launcher of a rank tells those that are still meeting: how the rank's process has ended.
struct EndedRank {
  static constexpr const char* key = "ended";  ///< in the store; the first holds
  int rank = 0;
  std::string how;  ///< "it was killed by signal 9"

  std::string encode() const;
  static EndedRank decode(const std::string& bytes);
};

/// `lost` ("rank 1 (process 77 on node3)") has left since it came. Context: `rank` says so.
/// @param how it ended; empty: it is not known
Error lost_error(int rank, const std::string& lost, const std::string& purpose, const std::string& how = {});

/// All ranks arrived but rank 0 does not answer.
Error silent_error(int rank, int size, const std::string& purpose, Deadline deadline);

/// Rank 0's verdict. @param mine its own arrival
/// @param arrivals by rank; an empty entry is a rank that did not come before the deadline
std::string conclude(const Arrival& mine, const std::vector<std::optional<std::string>>& arrivals,
                     Deadline deadline);
std::string refuse(const Refusal& why);
std::string call_off(const Error& why);
/// "ranks 1, 3 of 4 did not arrive within 2.0 s for connect"
std::string time_out(const std::vector<int>& missing, int size, const std::string& purpose,
                     Deadline deadline);

/// The notes. @throws Error (timeout, peer_lost, mismatch) when the verdict is that there are none, or that there are
/// not as many ranks as this one counts
std::vector<std::string> open_verdict(const std::string& verdict, const RankIdentity& mine);

/// @throws Error (usage) unless `members` are different ranks below `size` and `rank` is one of them
/// @returns the place of `rank` in `members`
int place_among(const std::vector<int>& members, int rank, int size);

}  // namespace weft::detail
