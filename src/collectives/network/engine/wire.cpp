#include "collectives/network/engine/wire.hpp"

#include <algorithm>
#include <numeric>
#include <thread>

namespace weft::detail {

void GroupWire::Notes::post(const std::string& message) {
  const auto body = std::make_shared<const std::string>(message);
  const auto entered = group_.all->enter();
  for (const int rank : group_.ranks) {
    if (rank != group_.in_transport(group_.rank)) group_.all->send_note(group_, rank, body);
  }
}

std::vector<SideChannel::Message> GroupWire::Notes::collect() {
  const auto entered = group_.all->enter();
  std::vector<Message> messages;
  for (Message& message : group_.all->take_notes(group_)) {
    const auto found = std::ranges::find(group_.ranks, message.rank);
    if (found == group_.ranks.end()) continue;
    messages.push_back({static_cast<int>(found - group_.ranks.begin()), std::move(message.body)});
  }
  return messages;
}

std::vector<std::pair<int, std::string>> GroupWire::losses() {
  std::vector<std::pair<int, std::string>> all;
  const auto entered = enter();
  for (int rank = 0; group_.all->losses() > 0 && rank < size(); ++rank) {
    const std::string& lost = group_.all->lost(group_.in_transport(rank));
    if (!lost.empty()) all.emplace_back(rank, lost);
  }
  return all;
}

// Four ranks on two cores, 8 bytes: 64 looks in a row, which is how a wait begins, kept the others from their cores for twice as long
// as the exchange takes.
void GroupWire::give_way() {
  if (!group_.all->looks_are_cheap()) std::this_thread::yield();
}

std::shared_ptr<GroupWire> GroupWire::of(RankGroup group, const std::shared_ptr<Rendezvous>& rendezvous,
                                         Deadline deadline, std::chrono::nanoseconds timeout) {
  group.all->begin_group(group, rendezvous, deadline);
  return std::make_shared<GroupWire>(std::move(group), timeout);
}

std::shared_ptr<GroupWire> GroupWire::of_all(const std::shared_ptr<Peers>& all,
                                             const std::shared_ptr<Rendezvous>& rendezvous, Deadline deadline,
                                             std::chrono::nanoseconds timeout) {
  std::vector<int> ranks(static_cast<std::size_t>(rendezvous->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return of({.all = all, .rank = rendezvous->rank(), .ranks = std::move(ranks)}, rendezvous, deadline,
            timeout);
}

std::shared_ptr<GroupWire> GroupWire::split(const std::vector<int>& members,
                                            const std::shared_ptr<Rendezvous>& rendezvous) const {
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(group_.in_transport(member));
  return of({.all = group_.all, .rank = rendezvous->rank(), .ranks = std::move(ranks)}, rendezvous,
            Deadline::in(timeout_), timeout_);
}

}  // namespace weft::detail
