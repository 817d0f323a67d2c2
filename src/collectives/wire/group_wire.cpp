#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "collectives/wire/peers.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::uint32_t most_groups = 1U << (64 - tag_bits - rank_bits);

class GroupSideChannel final : public SideChannel {
 public:
  explicit GroupSideChannel(std::shared_ptr<const Group> group) : group_(std::move(group)) {}

  void post(const std::string& message) override {
    const auto body = std::make_shared<const std::string>(message);
    const auto entered = group_->all->enter();
    for (int rank = 0; rank < static_cast<int>(group_->ranks.size()); ++rank) {
      if (rank != group_->rank) group_->all->send_note(group_->number, group_->in_world(rank), body);
    }
  }
  std::vector<Message> collect() override {
    const auto entered = group_->all->enter();
    group_->all->progress();
    std::vector<Message> messages;
    for (Message& message : group_->all->take_notes(group_->number)) {
      const auto found = std::ranges::find(group_->ranks, message.rank);
      if (found == group_->ranks.end()) continue;
      messages.push_back({static_cast<int>(found - group_->ranks.begin()), std::move(message.body)});
    }
    return messages;
  }

 private:
  std::shared_ptr<const Group> group_;
};

class GroupWire final : public Wire {
 public:
  GroupWire(const std::shared_ptr<const Group>& group, std::chrono::nanoseconds timeout)
      : group_(group), timeout_(timeout), side_channel_(group) {}

  std::string name() const override { return group_->all->name(); }
  int rank() const override { return group_->rank; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }
  int largest_tag() const override { return (1 << tag_bits) - 1; }
  std::unique_lock<std::mutex> enter() override { return group_->all->enter(); }
  std::unique_ptr<Messages> messages() override { return group_->all->messages(group_); }
  SideChannel& side_channel() override { return side_channel_; }
  void rest(std::chrono::microseconds at_most) override { group_->all->rest(at_most); }
  std::shared_ptr<Wire> split(const std::vector<int>& members,
                              const std::shared_ptr<Rendezvous>& rendezvous) override {
    std::vector<int> ranks;
    for (const int member : members) ranks.push_back(group_->in_world(member));
    return of(group_->all, std::move(ranks), *rendezvous, Deadline::in(timeout_), timeout_);
  }
  void give_up() noexcept override { group_->all->give_up(); }

  static std::shared_ptr<Wire> of(const std::shared_ptr<Peers>& all, std::vector<int> ranks,
                                  Rendezvous& rendezvous, Deadline deadline,
                                  std::chrono::nanoseconds timeout) {
    const std::uint32_t number = all->new_group(rendezvous, deadline);
    if (number >= most_groups) {
      throw Error(ErrorKind::usage,
                  text("more than ", most_groups, " communicators were made over ", all->name()),
                  "keep those that are needed again");
    }
    const auto group = std::make_shared<Group>(Group{all, number, rendezvous.rank(), std::move(ranks)});
    return std::make_shared<GroupWire>(group, timeout);
  }

 private:
  std::shared_ptr<const Group> group_;
  std::chrono::nanoseconds timeout_;
  GroupSideChannel side_channel_;
};

}  // namespace

std::uint32_t Peers::new_group(Rendezvous& rendezvous, Deadline deadline) {
  std::uint32_t group = 0;
  for (const std::string& note :
       rendezvous.all_gather(std::to_string(next_group_), "numbers of groups", deadline))
    group = std::max(group, static_cast<std::uint32_t>(std::strtoul(note.c_str(), nullptr, 10)));
  next_group_ = group + 1;
  return group;
}

std::deque<SideChannel::Message> Peers::take_notes(std::uint32_t group) {
  const auto found = notes_.find(group);
  if (found == notes_.end()) return {};
  return std::exchange(found->second, {});
}

std::shared_ptr<Wire> make_group_wire(const std::shared_ptr<Peers>& all, Rendezvous& rendezvous,
                                      Deadline deadline, std::chrono::nanoseconds timeout) {
  if (rendezvous.size() > 1 << rank_bits) {
    throw Error(ErrorKind::usage,
                text(rendezvous.size(), " ranks are more than weft's tags over ", all->name(), " tell apart"),
                text("at most ", 1 << rank_bits, " ranks meet over it"));
  }
  std::vector<int> ranks(static_cast<std::size_t>(rendezvous.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return GroupWire::of(all, std::move(ranks), rendezvous, deadline, timeout);
}

}  // namespace weft::detail
