#pragma once
// Two queues of transfers that share a link evenly. A transfer begins when all ranks have called for it and
// those before it in its queue are through.

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace weft::detail {

class SimulatedLink {
 public:
  enum Lane { gathers, reductions };
  struct Transfer {
    Lane lane = gathers;
    std::size_t number = 0;
  };

  explicit SimulatedLink(int ranks) : posted_{std::vector<std::size_t>(static_cast<std::size_t>(ranks)), {}} {
    posted_[reductions] = posted_[gathers];
  }

  /// The k-th of a lane is the same transfer on every rank. @param seconds alone on the link
  Transfer post(int rank, Lane lane, double seconds) {
    const std::size_t number = posted_[lane][static_cast<std::size_t>(rank)]++;
    if (number == queue_[lane].size()) queue_[lane].push_back({seconds, 0});
    ++queue_[lane][number].called;
    return {lane, number};
  }
  bool done(Transfer transfer) const { return transfer.number < through_[transfer.lane]; }
  /// When the next transfer is through, should nothing else be called for; infinity where none is on its way.
  double next() const { return now_ + least() * sharing(); }
  /// @param time at most next()
  void advance(double time) {
    const bool arrives = time >= next();
    const double each = (time - now_) / sharing();
    const std::array<bool, 2> busy{is_busy(gathers), is_busy(reductions)};
    const double first = least();
    for (const Lane lane : {gathers, reductions}) {
      if (!busy[lane]) continue;
      double& left = queue_[lane][through_[lane]].left;
      if (arrives && left == first) {
        ++through_[lane];
      } else {
        left -= arrives ? first : each;
      }
    }
    now_ = time;
  }

 private:
  struct Queued {
    double left;
    std::size_t called;
  };

  bool is_busy(Lane lane) const {
    return through_[lane] < queue_[lane].size() &&
           queue_[lane][through_[lane]].called == posted_[lane].size();
  }
  /// Seconds of the link that the transfer to be through first still takes; infinity where none is on its
  /// way.
  double least() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Lane lane : {gathers, reductions}) {
      if (is_busy(lane)) least = std::min(least, queue_[lane][through_[lane]].left);
    }
    return least;
  }
  int sharing() const { return is_busy(gathers) && is_busy(reductions) ? 2 : 1; }

  double now_ = 0;
  std::array<std::vector<Queued>, 2> queue_;
  std::array<std::size_t, 2> through_{};
  std::array<std::vector<std::size_t>, 2> posted_;  // by lane and rank
};

}  // namespace weft::detail
