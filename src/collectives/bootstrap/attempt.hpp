#pragma once
// Which attempt of a job this is, in a store that keeps the words of processes that have ended.
//
// torchrun's agent keeps its store while it starts ranks again, and so does a process that leaves its group and makes a new one. The numbers
// of restarts that agents count may differ, so that they cannot tell attempts apart. Instead rank 0 begins an attempt: it puts a
// random name in the place of the word before. Each rank says hello under that name, with a number of its own, and rank 0 answers with all
// numbers. A rank that does not find its number among them has read what an earlier attempt left, and looks for
// rank 0's next word until the deadline. What ranks write under the name of an attempt no other attempt reads.
//
// A hello may be that of a process that has ended since. So each rank that finds its number says that it has joined, and rank 0 waits for all of
// them; until a rank has joined, rank 0 answers the process that was started in its place, too. A process whose rank had joined before says
// so, and the others end: they have read the addresses of one that is gone.
//
// Two processes may have one rank. Then the word of the later stands, and the earlier finds it in place of its own and tells rank 0 of both.

#include <optional>
#include <string>

#include "collectives/bootstrap/gathering.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

/// A store as it is. Neither call waits for another rank.
class KeptStore {
 public:
  virtual ~KeptStore() = default;
  /// What stood there is replaced.
  virtual void put(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> look(const std::string& key) = 0;
};

/// Collective: blocks until all ranks have come. Ranks that begin later, and processes that have ended meanwhile and were started again, join
/// as long as one is missing.
/// @returns the attempt's name: what goes before the keys of its ranks
/// @throws Error (timeout) naming who is missing, (mismatch) for ranks that count differently or are there twice
std::string join_attempt(KeptStore& store, const RankIdentity& mine, const std::string& purpose,
                         Deadline deadline);

/// Rank 0 has begun another attempt since, or a rank of this one was started again after it had joined: the processes of this one are to end.
/// None while neither has happened.
std::optional<Error> attempt_is_over(KeptStore& store, const std::string& name, int rank);

}  // namespace weft::detail
