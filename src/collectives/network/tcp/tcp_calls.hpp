#pragma once
// Which rank to call next, and at which of its addresses: pure, without sockets, and the caller brings the time.
//
// A rank's addresses are called one after the other (RFC 8305, section 5): the next when the one before has failed, or has been silent for a
// while. The earlier call goes on beside it, for its packets may only have been lost. One that fails is made again a little later, for
// an interface may come up.
//
// All ranks of a job begin at the same instant, and each calls all below it. So each begins with the one just below, that few call the same
// one, and so many calls at most count as under way. A silent call soon counts no more: a firewall that drops packets holds up no others.
//
//   while (const auto call = calls.next(now)) begin(*call);   // then sleep until calls.wakes(), or
//   calls.opened(*call, now) | failed(*call, now) | answered(call->rank)

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace weft::detail {

class Calls {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t at_a_time = 32;
  static constexpr std::chrono::milliseconds until_the_next{250};  // address of a rank
  static constexpr std::chrono::seconds until_the_next_when_open{
      2};                                                       // its process may be busy, or be a stranger
  static constexpr std::chrono::milliseconds until_again{100};  // what has failed

  struct Call {
    int rank = 0;
    std::size_t address = 0;  ///< which of the rank's
    auto operator<=>(const Call&) const = default;
  };

  /// @param addresses how many each rank has that is to be called, by rank; the last rank is called first
  Calls(const std::vector<std::size_t>& addresses, Time now);

  /// A call to begin now: of those that are due, the one that has been so for longest.
  std::optional<Call> next(Time now);
  /// When to ask next() again if nothing happens before; the end of time where nothing is due.
  Time wakes() const;

  /// There is a connection, and no answer yet.
  void opened(Call call, Time now);
  void failed(Call call, Time now);
  /// This rank is called no more.
  void answered(int rank);

 private:
  struct Rank {
    std::size_t addresses = 0;
    std::size_t begun = 0;  ///< so many of them have been called
    Time next_at{};         ///< when the next of them is
    bool has_answered = false;
  };
  struct Due {
    Call call;
    bool is_again = false;
  };

  Rank& rank_of(Call call) { return ranks_[static_cast<std::size_t>(call.rank)]; }
  void plan_next_address(Call after, Time at);
  bool still_holds(Time at, const Due& due);

  std::vector<Rank> ranks_;
  std::multimap<Time, Due> due_;  // at the same time, in the order in which they were put; some hold no more
  std::map<Call, Time> under_way_;  // those that count, and until when
};

}  // namespace weft::detail
