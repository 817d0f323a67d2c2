#include "weft/collectives/rendezvous.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <utility>

#include "collectives/bootstrap/gathering.hpp"
#include "collectives/diagnosis/agree.hpp"
#include "collectives/store/store_detail.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

using detail::Arrival;
using detail::RankIdentity;
using detail::Refusal;

/// How long the other ranks wait for rank 0's verdict after their own deadline: rank 0 may have arrived later, so its deadline ends later, and it
/// knows best which rank is missing.
constexpr std::chrono::seconds grace{2};
/// And rank 0 for the word of a rank that connects, which it misses: that one says who kept it.
constexpr std::chrono::milliseconds grace_of_rank_0{500};
/// How long rank 0 stays when ranks do not meet, for those that are still to hear why.
constexpr std::chrono::seconds for_the_late{2};
/// How long rank 0 looks for one rank before it looks whether another has refused or has left.
constexpr std::chrono::milliseconds turn{200};
/// The same of the others, who look for rank 0 alone; longer where they are many, for rank 0 answers all of them. (A connection to rank 0
/// that breaks is heard of at once.)
constexpr std::chrono::milliseconds turn_of_others{500};
constexpr std::chrono::milliseconds turn_of_each{10};

/// On a store, a rank is the process that writes under its number. A rank that finds another process there, or ranks that count
/// differently, leaves a refusal, which rank 0 makes everybody's verdict.
class StoreRendezvous final : public Rendezvous {
 public:
  /// @param ranks_in_store by rank; empty: the same
  StoreRendezvous(std::shared_ptr<Store> store, std::string name, int rank, int size,
                  std::vector<int> ranks_in_store = {})
      : store_(std::move(store)),
        name_(std::move(name)),
        mine_(RankIdentity::of_this_process(rank, size)),
        ranks_in_store_(std::move(ranks_in_store)) {
    if (store_ == nullptr || size < 1 || rank < 0 || rank >= size) {
      throw Error(ErrorKind::usage,
                  text("a rendezvous for rank ", rank, " of ", size, store_ ? "" : " without a store"),
                  "ranks count from 0 to size - 1");
    }
  }

  int rank() const override { return mine_.rank; }
  int size() const override { return mine_.size; }

  std::vector<std::string> all_gather(const std::string& note, const std::string& purpose,
                                      Deadline deadline) override {
    const std::string round = round_key(++rounds_);
    none_waits_ = true;  // in the next round, unless this one brings the ranks there
    const Arrival mine{mine_, purpose, note};
    arrive(round, mine);
    const std::string verdict =
        mine_.rank == 0 ? lead(round, mine, deadline) : follow(round, purpose, deadline);
    try {
      auto notes = detail::open_verdict(verdict, mine_);
      none_waits_ = false;
      return notes;
    } catch (const Error& error) {
      // The others may have met without this rank: they hear of it in their next round.
      if (error.kind() == ErrorKind::mismatch) leave_refusal(round, {error.problem(), error.advice()});
      if (error.kind() == ErrorKind::peer_lost && mine_.rank == 0 && rounds_ == 1) stay_for_the_late(round);
      throw;
    }
  }

  // Who waits in the next round finds its verdict there.
  void call_off(const Error& why) noexcept override {
    if (none_waits_ || rank_0_is_silent_) return;
    detail::tell_the_others(mine_.rank, [&] {
      const bool names_another = why.kind() == ErrorKind::timeout || why.kind() == ErrorKind::peer_lost;
      const bool is_misuse = why.kind() == ErrorKind::usage || why.kind() == ErrorKind::mismatch;
      const std::string who = names_another ? "" : text("rank ", mine_.rank, " failed: ");
      const Error said(is_misuse ? why.kind() : ErrorKind::peer_lost, who + why.problem(), why.advice());
      (void)set_or_get(round_key(rounds_ + 1) + "verdict", detail::call_off(said));
    });
  }

  std::optional<Error> called_off() override try {
    const std::string next = round_key(rounds_ + 1);
    const auto lost = first_gone();
    if (const auto verdict = store_->get(next + "verdict", Deadline::in({}))) {
      try {
        (void)detail::open_verdict(*verdict, mine_);
      } catch (const Error& error) {
        return error;
      }
    }
    if (lost) return lost_error(*lost, round_key(rounds_), "connect");
    return std::nullopt;
  } catch (const Error&) {
    rank_0_is_silent_ = true;
    throw;
  }

  std::shared_ptr<Rendezvous> split(const std::vector<int>& members) override {
    const int place = detail::place_among(members, mine_.rank, mine_.size);
    // The counter tells apart one split from the next, the first member the groups of one split.
    std::string child = text(name_, ".", ++splits_, ".", members.front());
    std::vector<int> ranks = members;
    if (!ranks_in_store_.empty()) {
      for (int& rank : ranks) rank = ranks_in_store_[static_cast<std::size_t>(rank)];
    }
    return std::make_shared<StoreRendezvous>(store_, std::move(child), place,
                                             static_cast<int>(members.size()), std::move(ranks));
  }

 private:
  std::string round_key(std::uint64_t round) const { return text(name_, "/", round, "/"); }

  // In this order: a size that stands in the store has an arrival that says whose it is.
  void arrive(const std::string& round, const Arrival& mine) {
    const auto there = set_or_get(round + std::to_string(mine_.rank), mine.encode());
    if (there) refuse(round, detail::rank_is_taken(Arrival::decode(mine_.rank, *there).who, mine_));
    if (rounds_ > 1) return;
    const auto size = set_or_get(name_ + "/size", std::to_string(mine_.size));
    if (size) refuse(round, detail::sizes_differ(mine_, who_counts(*size, round)));
  }

  /// A process that has arrived with this number of ranks, for a message that names it.
  RankIdentity who_counts(const std::string& size, const std::string& round) {
    RankIdentity who{0, 0, "an earlier process"};
    std::from_chars(size.data(), size.data() + size.size(), who.size);
    for (int rank = 0; rank < who.size; ++rank) {
      const auto arrival = store_->get(round + std::to_string(rank), Deadline::in({}));
      if (!arrival) continue;
      const RankIdentity there = Arrival::decode(rank, *arrival).who;
      if (there.size == who.size) return there;
    }
    return who;
  }

  /// Nothing, or the other value that stands there.
  std::optional<std::string> set_or_get(const std::string& key, const std::string& value) {
    try {
      store_->set(key, value);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::peer_lost)
        throw;  // no other value
      auto there = store_->get(key, Deadline::in({}));
      if (!there || *there == value) throw;
      return there;
    }
    return std::nullopt;
  }

  [[noreturn]] void refuse(const std::string& round, const Refusal& why) {
    leave_refusal(round, why);
    throw Error(ErrorKind::mismatch, why.problem, why.advice, {mine_.rank, {}, 0});
  }

  /// For those who wait in this round, and for those who will be in another. The first refusal holds.
  void leave_refusal(const std::string& round, const Refusal& why) {
    detail::tell_the_others(mine_.rank, [&] {
      (void)set_or_get(name_ + "/refusal", why.encode());
      (void)set_or_get(round + "verdict", detail::refuse(why));
      if (mine_.rank == 0) stay_for_the_late(round);
    });
  }
  /// A store may end with rank 0: then a rank that comes later would only learn that rank 0 does not answer. Waits for
  /// as many as any of those who came counts, without those that have ended.
  void stay_for_the_late(const std::string& round) noexcept {
    const Deadline deadline = Deadline::in(for_the_late);
    int size = mine_.size;
    try {
      for (int rank = 0; rank < size && !deadline.passed(); ++rank) {
        std::optional<std::string> arrival;
        for (bool last = false; !arrival && !last;) {
          last = deadline.passed() || has_gone(rank);  // what has gone may have been here, and counts, too
          arrival = store_->get(round + std::to_string(rank),
                                last ? Deadline::in({}) : detail::at_most(turn, deadline));
        }
        if (arrival) size = std::max(size, Arrival::decode(rank, *arrival).who.size);
      }
    } catch (const std::exception& error) {
      log::debug(text("rank 0 did not stay for ranks that come later: ", message_of(error)));
    }
  }

  std::optional<Refusal> refusal() {
    const auto left = store_->get(name_ + "/refusal", Deadline::in({}));
    return left ? std::optional(Refusal::decode(*left)) : std::nullopt;
  }

  std::string lead(const std::string& round, const Arrival& mine, Deadline deadline) {
    std::vector<std::optional<std::string>> arrivals(static_cast<std::size_t>(mine_.size));
    std::optional<Refusal> refused;
    std::optional<int> lost;
    std::optional<std::string> word;  // of a rank that has called off
    for (std::size_t rank = 0; rank < arrivals.size() && !refused && !lost && !word; ++rank) {
      do {
        arrivals[rank] = store_->get(round + std::to_string(rank), detail::at_most(turn, deadline));
        if (arrivals[rank]) break;
        lost = first_gone();
        refused = refusal();  // after that: who leaves because it refuses, or calls off, has said why
        word = store_->get(round + "verdict", Deadline::in({}));
      } while (!refused && !lost && !word && !deadline.passed());
    }
    const bool is_late =
        rounds_ > 1 && !std::ranges::all_of(arrivals, [](const auto& one) { return one.has_value(); });
    if (!refused && !lost && !word && is_late)
      word = store_->get(round + "verdict", Deadline::in(grace_of_rank_0));
    if (!refused) refused = refusal();
    std::string verdict;
    if (refused) {
      verdict = detail::refuse(*refused);
    } else if (word) {
      return *word;
    } else if (lost) {
      verdict = detail::call_off(lost_error(*lost, round, mine.purpose));
    } else {
      verdict = detail::conclude(mine, arrivals, deadline);
    }
    return set_or_get(round + "verdict", verdict).value_or(verdict);
  }

  /// This rendezvous's ranks that have left the store, or of which a launcher has said that they have ended.
  std::vector<int> gone() {
    std::vector<int> in_store = store_->gone();
    if (const auto told = ended()) in_store.push_back(told->rank);
    std::vector<int> ranks;
    for (const int one : in_store) {
      const auto found = std::ranges::find(ranks_in_store_, one);
      const int rank = ranks_in_store_.empty() ? one : static_cast<int>(found - ranks_in_store_.begin());
      if (rank < mine_.size) ranks.push_back(rank);
    }
    return ranks;
  }
  bool has_gone(int rank) {
    const std::vector<int> all = gone();
    return std::ranges::find(all, rank) != all.end();
  }
  std::optional<int> first_gone() {
    const std::vector<int> all = gone();
    return all.empty() ? std::nullopt : std::optional(std::ranges::min(all));
  }
  std::optional<detail::EndedRank> ended() {
    const auto told = store_->get(detail::EndedRank::key, Deadline::in({}));
    return told ? std::optional(detail::EndedRank::decode(*told)) : std::nullopt;
  }
  Error lost_error(int rank, const std::string& round, const std::string& purpose) {
    const int in_store = ranks_in_store_.empty() ? rank : ranks_in_store_[static_cast<std::size_t>(rank)];
    const auto told = ended();
    return detail::lost_error(mine_.rank, name_of(rank, round), purpose,
                              told && told->rank == in_store ? told->how : "");
  }

  /// "rank 1 (process 77 on node3)", or "rank 1" before it has arrived
  std::string name_of(int rank, const std::string& round) {
    const auto arrival = store_->get(round + std::to_string(rank), Deadline::in({}));
    return arrival ? Arrival::decode(rank, *arrival).who.name() : text("rank ", rank);
  }

  /// Rank 0's verdict; none at the deadline.
  std::optional<std::string> verdict_of_rank_0(const std::string& round, const std::string& purpose,
                                               Deadline deadline) {
    while (true) {
      const bool last = deadline.passed();
      auto verdict = store_->get(
          round + "verdict", detail::at_most(std::max(turn_of_others, turn_of_each * mine_.size), deadline));
      if (verdict || last) return verdict;
      if (first_gone() != 0) continue;
      // It may have left right after its verdict.
      if ((verdict = store_->get(round + "verdict", Deadline::in({})))) return verdict;
      throw lost_error(0, round, purpose);
    }
  }

  std::string follow(const std::string& round, const std::string& purpose, Deadline deadline) {
    if (auto verdict = verdict_of_rank_0(round, purpose, detail::later(deadline, grace))) return *verdict;
    std::vector<int> missing;
    for (int rank = 0; rank < mine_.size; ++rank) {
      if (!store_->get(round + std::to_string(rank), Deadline::in({}))) missing.push_back(rank);
    }
    if (!missing.empty()) {
      // Before it goes: rank 0 would take it for dead.
      const std::string verdict = detail::time_out(missing, mine_.size, purpose, deadline);
      return set_or_get(round + "verdict", verdict).value_or(verdict);
    }
    throw detail::silent_error(mine_.rank, mine_.size, purpose, deadline);
  }

  const std::shared_ptr<Store> store_;
  const std::string name_;
  const RankIdentity mine_;
  const std::vector<int> ranks_in_store_;
  std::uint64_t rounds_ = 0;
  bool none_waits_ = true;  ///< in the next round
  std::atomic<bool> rank_0_is_silent_ = false;
  std::uint64_t splits_ = 0;
};

}  // namespace

std::shared_ptr<Rendezvous> make_store_rendezvous(std::shared_ptr<Store> store, std::string name, int rank,
                                                  int size) {
  return std::make_shared<StoreRendezvous>(std::move(store), std::move(name), rank, size);
}

}  // namespace weft
