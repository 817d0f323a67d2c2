#include "collectives/network/tcp/tcp_calls.hpp"

#include <algorithm>

namespace weft::detail {

Calls::Calls(const std::vector<std::size_t>& addresses, Time now) {
  for (const std::size_t count : addresses) ranks_.push_back({.addresses = count, .next_at = now});
  for (int rank = static_cast<int>(ranks_.size()) - 1; rank >= 0; --rank) {
    const Call first{rank, 0};
    if (rank_of(first).addresses > 0) due_.emplace(now, Due{first});
  }
}

std::optional<Calls::Call> Calls::next(Time now) {
  std::erase_if(under_way_, [&](const auto& one) { return one.second <= now; });
  while (under_way_.size() < at_a_time && !due_.empty() && due_.begin()->first <= now) {
    const auto [at, due] = *due_.begin();
    due_.erase(due_.begin());
    if (!still_holds(at, due)) continue;
    under_way_[due.call] = now + until_the_next;
    if (!due.is_again) {
      ++rank_of(due.call).begun;
      plan_next_address(due.call, now + until_the_next);
    }
    return due.call;
  }
  return std::nullopt;
}

// What is planned anew stays in due_ where it was planned before, and is passed over there.
bool Calls::still_holds(Time at, const Due& due) {
  const Rank& rank = rank_of(due.call);
  if (rank.has_answered) return false;
  return due.is_again || (due.call.address == rank.begun && at == rank.next_at);
}

/// Unless `after` is not the last that was called, or the rank has no more.
void Calls::plan_next_address(Call after, Time at) {
  Rank& rank = rank_of(after);
  if (after.address + 1 != rank.begun || rank.begun == rank.addresses) return;
  rank.next_at = at;
  due_.emplace(at, Due{{after.rank, rank.begun}});
}

Calls::Time Calls::wakes() const {
  if (due_.empty()) return Time::max();
  if (under_way_.size() < at_a_time) return due_.begin()->first;
  return std::ranges::min_element(under_way_, {}, [](const auto& one) { return one.second; })->second;
}

void Calls::opened(Call call, Time now) {
  if (const auto found = under_way_.find(call); found != under_way_.end())
    found->second = now + until_the_next_when_open;
  plan_next_address(call, now + until_the_next_when_open);
}

void Calls::failed(Call call, Time now) {
  under_way_.erase(call);
  due_.emplace(now + until_again, Due{call, true});
  plan_next_address(call, now);
}

void Calls::answered(int rank) {
  ranks_[static_cast<std::size_t>(rank)].has_answered = true;
  std::erase_if(under_way_, [&](const auto& one) { return one.first.rank == rank; });
}

}  // namespace weft::detail
