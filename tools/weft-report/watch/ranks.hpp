#pragma once
// Who holds up a job of weft, from what its ranks serve for Prometheus (docs/metrics.md), look after look. Pure: time is what the caller says.
//
//   RanksWatch ranks(30);                                          // seconds without progress that are an alarm
//   for (const ras::RasFinding& one : ranks.looked(seconds, looks)) std::cout << one.finding.verdict << '\n';
//
// A rank hangs if it gives no answer, or has issued fewer operations than others, and has not moved for so long while another waits in an operation.
// It is late if, apart from one pause, the others waited for its gradients for a third of their time more than for any other's; or, for four
// times as long as the caller has patience, for a twentieth of their time and five times as long as for any other's.
//
// WRONG: looks of two jobs in one RanksWatch, or another order of the addresses.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/ras/judge.hpp"

namespace weft::report {

/// What one rank serves.
struct RankFigures {
  int rank = 0;
  int size = 0;  ///< ranks of the job
  std::map<std::string, double>
      operations{};   ///< number of the newest, by communicator and lane: "world, host"
  double oldest = 0;  ///< seconds that its oldest operation under way has taken; 0: none is
  double steps = 0;
  double late = 0;       ///< seconds that it was later with gradients than all others
  double accounted = 0;  ///< seconds in which that was counted
};

/// @param from named in messages. @throws Error (usage) where the text is not that of a rank of weft
RankFigures parse_figures(std::string_view text, const std::string& from);

/// One question to one rank.
struct RankLook {
  std::string address{};  ///< "localhost:9401"
  std::optional<RankFigures> figures{};
  std::string why{};     ///< why there are none: "no answer within 5 s"
  bool refused = false;  ///< nobody listens there
};

class RanksWatch {
 public:
  explicit RanksWatch(double patience) : patience_(patience) {}

  /// @param now seconds, which only rise @param looks one for each rank, in the same order each time.
  /// @returns what stands; where nobody answers, what stood before
  const std::vector<ras::RasFinding>& looked(double now, const std::vector<RankLook>& looks);

  /// How many ranks answered last, and how often in a row none did.
  int answered() const { return answered_; }
  int misses() const { return misses_; }
  bool ever_answered() const { return answers_ > 0; }
  /// How many looks some rank answered.
  int answers() const { return answers_; }

 private:
  struct Account {
    double when = 0;
    double late = 0;
    double accounted = 0;
  };
  struct Rank {
    std::string address{};
    std::optional<RankFigures> last{};
    bool answers = false;
    bool refused = false;
    std::string why{};
    double moved_at = 0;             ///< when its operations were last seen to rise
    double answered_at = 0;          ///< or first asked
    std::deque<Account> accounts{};  ///< one for each change

    bool waits(double patience) const { return answers && last->oldest >= patience; }
  };

  struct Lateness {
    double late = 0;
    double accounted = 0;
    double share() const { return accounted > 0 ? late / accounted : 0; }
  };

  void note(double now, Rank& rank, const RankLook& look) const;
  std::optional<ras::RasFinding> silent(double now, bool refused) const;
  std::optional<ras::RasFinding> behind(double now) const;
  std::optional<ras::RasFinding> standing_still(double now) const;
  static Lateness between(const Rank& rank, std::size_t from, std::size_t to);
  std::vector<Lateness> lateness(const Rank& rank) const;
  std::optional<ras::RasFinding> late() const;
  double longest_wait() const;
  std::string waiting_words() const;

  double patience_;
  int answered_ = 0;
  int misses_ = 0;
  int answers_ = 0;
  std::vector<Rank> ranks_{};
  std::vector<ras::RasFinding> found_{};
};

}  // namespace weft::report
