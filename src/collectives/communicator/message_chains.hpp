#pragma once
// What the messages of a group wait for: those before them with the same peer, direction and tag, on whatever stream.
//
// A receive from any rank could take the message of each receive with its tag, so it waits for all of them before it, and they for it. A send that
// waited for an earlier receive, on another stream, could wait for a rank whose receive waits for its send.

#include <algorithm>
#include <map>
#include <tuple>

#include "collectives/backend/transfers.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

class MessageChains {
 public:
  using Channel = std::tuple<std::uint32_t, bool, int>;  ///< tag, whether it sends, peer
  using Channels = RecycledVector<Channel>;

  static Channels of(const std::vector<Transfer>& transfers) {
    Channels channels;
    for (const Transfer& one : transfers) channels.emplace_back(one.tag, one.sends, one.peer);
    return channels;
  }
  /// Later work of `lane` starts after what was issued before over these.
  void join(Stream& lane, const Channels& channels) const {
    for (const auto& [tag, sends, peer] : channels) {
      const bool from_any = !sends && peer == any_source;
      const auto first = last_.lower_bound({tag, sends, sends ? peer : any_source});
      for (auto it = first;
           it != last_.end() && std::get<0>(it->first) == tag && std::get<1>(it->first) == sends; ++it) {
        const int other = std::get<2>(it->first);
        if (other > peer && !from_any) break;
        if (from_any || other == peer || (!sends && other == any_source)) lane.wait(it->second);
      }
    }
  }
  void issued(const Channels& channels, const Event& event) {
    for (const Channel& channel : channels) last_[channel] = event;
    if (last_.size() < prune_at_) return;
    std::erase_if(last_, [](const auto& one) { return one.second.done() && !one.second.error(); });
    prune_at_ = std::max(least, 2 * last_.size());
  }

 private:
  static constexpr std::size_t least = 256;
  using Allocator = RecycledAllocator<std::pair<const Channel, Event>>;
  std::map<Channel, Event, std::less<>, Allocator> last_;
  std::size_t prune_at_ = least;
};

}  // namespace weft::detail
