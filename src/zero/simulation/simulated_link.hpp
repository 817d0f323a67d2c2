#pragma once
// Two queues of transfers that share a link evenly. A transfer begins when all ranks have posted it and the
// transfers before it in its queue are done.

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace weft::detail {

class SimulatedLink {
 public:
  enum Queue { gathers, reductions };
  struct Transfer {
    Queue queue = gathers;
    std::size_t number = 0;
  };

  explicit SimulatedLink(int ranks) : posted_{std::vector<std::size_t>(static_cast<std::size_t>(ranks)), {}} {
    posted_[reductions] = posted_[gathers];
  }

  /// The k-th transfer of a queue is the same one on every rank.
  /// @param seconds how long it takes alone on the link
  Transfer post(int rank, Queue queue, double seconds) {
    const std::size_t number = posted_[queue][static_cast<std::size_t>(rank)]++;
    if (number == queued_[queue].size()) queued_[queue].push_back({seconds, 0});
    ++queued_[queue][number].posted;
    return {queue, number};
  }
  bool done(Transfer transfer) const { return transfer.number < done_[transfer.queue]; }
  /// When the next transfer is done if nothing else is posted; infinity if none is under way.
  double next() const { return now_ + least() * transfers_in_parallel(); }
  /// @param time at most next()
  void advance(double time) {
    const bool arrives = time >= next();
    const double each = (time - now_) / transfers_in_parallel();
    const std::array<bool, 2> busy{is_busy(gathers), is_busy(reductions)};
    const double first = least();
    for (const Queue queue : {gathers, reductions}) {
      if (!busy[queue]) continue;
      double& left = queued_[queue][done_[queue]].left;
      if (arrives && left == first) {
        ++done_[queue];
      } else {
        left -= arrives ? first : each;
      }
    }
    now_ = time;
  }

 private:
  struct Queued {
    double left;
    std::size_t posted;
  };

  bool is_busy(Queue queue) const {
    return done_[queue] < queued_[queue].size() &&
           queued_[queue][done_[queue]].posted == posted_[queue].size();
  }
  /// The least link time that a transfer under way still takes; infinity if none is under way.
  double least() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Queue queue : {gathers, reductions}) {
      if (is_busy(queue)) least = std::min(least, queued_[queue][done_[queue]].left);
    }
    return least;
  }
  int transfers_in_parallel() const { return is_busy(gathers) && is_busy(reductions) ? 2 : 1; }

  double now_ = 0;
  std::array<std::vector<Queued>, 2> queued_;
  std::array<std::size_t, 2> done_{};
  std::array<std::vector<std::size_t>, 2> posted_;  // by queue and rank
};

}  // namespace weft::detail
