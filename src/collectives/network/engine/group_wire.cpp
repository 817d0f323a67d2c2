#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "collectives/network/engine/peers.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::uint32_t goodbye = UINT32_MAX;  // a group that no rank has
constexpr std::chrono::seconds to_leave{2};
constexpr std::chrono::milliseconds to_say_why{50};
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

class GroupMessages final : public Messages {
 public:
  explicit GroupMessages(std::shared_ptr<const Group> group)
      : group_(std::move(group)), slots_(std::make_shared<MessageSlots>()) {}

  void send(std::size_t label, std::span<const std::byte> data, int peer, int tag, bool is_part) override {
    const int to = group_->in_world(peer);
    MessageSlot& slot = slots_->take(label, data.size(), to, is_part ? 2 : 1);
    if (is_part) group_->all->await(whole_tag(group_->number, to, tag), slot);
    group_->all->send(data, whole_tag(group_->number, group_->in_world(group_->rank), tag), slot);
  }
  void receive(std::size_t label, std::span<std::byte> data, int peer, int tag, bool is_part) override {
    const int from = group_->in_world(peer);
    MessageSlot& slot = slots_->take(label, data.size(), from, 1);
    slot.is_part = is_part;
    slot.tag = whole_tag(group_->number, group_->in_world(group_->rank), tag);
    group_->all->receive(data, whole_tag(group_->number, from, tag), slot);
  }
  std::span<const Ended> collect() override;
  void abandon(std::shared_ptr<void> memory) noexcept override {
    const auto entered = group_->all->enter();
    group_->all->keep(slots_);
    group_->all->keep(std::move(memory));
    for (const MessageSlot& slot : slots_->slots()) {
      if (slot.steps > 0) group_->all->cancel(slot);
    }
    group_->all->settle(*slots_);
  }

 private:
  std::shared_ptr<const Group> group_;
  std::shared_ptr<MessageSlots> slots_;
  std::vector<Ended> collected_;
};

std::span<const Messages::Ended> GroupMessages::collect() {
  const Peers& all = *group_->all;
  group_->all->progress();
  slots_->take_ended(collected_);
  if (all.losses() == 0) return collected_;
  for (const MessageSlot& slot : slots_->slots()) {
    const std::string& lost = all.lost(slot.peer);
    if (slot.steps > 0 && !lost.empty()) collected_.push_back({.label = slot.label, .lost = lost});
  }
  return collected_;
}

class GroupWire final : public Wire {
 public:
  GroupWire(const std::shared_ptr<const Group>& group, std::chrono::nanoseconds timeout)
      : group_(group), timeout_(timeout), side_channel_(group) {}

  std::string name() const override { return group_->all->name(); }
  int rank() const override { return group_->rank; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }
  int largest_tag() const override { return (1 << tag_bits) - 1; }
  std::unique_lock<std::mutex> enter() override { return group_->all->enter(); }
  std::unique_ptr<Messages> messages() override { return std::make_unique<GroupMessages>(group_); }
  SideChannel& side_channel() override { return side_channel_; }
  std::vector<std::pair<int, std::string>> losses() override {
    std::vector<std::pair<int, std::string>> all;
    const auto entered = group_->all->enter();
    if (group_->all->losses() == 0) return all;
    for (int rank = 0; rank < size(); ++rank) {
      const std::string& lost = group_->all->lost(group_->in_world(rank));
      if (!lost.empty()) all.emplace_back(rank, lost);
    }
    return all;
  }
  // Four ranks on two cores, 8 bytes: 64 looks in a row, which is how a wait begins, kept the others from their cores for twice as long
  // as the exchange takes.
  void give_way() override {
    if (!group_->all->looks_are_cheap()) std::this_thread::yield();
  }
  void rest(std::chrono::microseconds at_most) override { group_->all->rest(at_most); }
  std::shared_ptr<Wire> split(const std::vector<int>& members,
                              const std::shared_ptr<Rendezvous>& rendezvous) override {
    std::vector<int> ranks;
    for (const int member : members) ranks.push_back(group_->in_world(member));
    return of(group_->all, std::move(ranks), *rendezvous, Deadline::in(timeout_), timeout_);
  }
  bool has_left(int rank) override { return group_->all->has_left(group_->in_world(rank)); }
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

void Peers::keep_note(std::uint32_t group, SideChannel::Message note) {
  if (group == goodbye) {
    has_left_[static_cast<std::size_t>(note.rank)] = true;
  } else {
    notes_[group].push_back(std::move(note));
  }
}

void Peers::rest_on(int fd, std::chrono::microseconds at_most) {
  pollfd waits{fd, POLLIN, 0};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  const timespec limit{seconds.count(), std::chrono::nanoseconds(at_most - seconds).count()};
  (void)ppoll(&waits, 1, &limit, nullptr);
}

void Peers::leave() noexcept {
  if (std::uncaught_exceptions() > 0) give_up();
  if (has_given_up()) {  // what it said why must leave before the connections do
    for (const Deadline deadline = Deadline::in(to_say_why); !deadline.passed();) progress();
    return;
  }
  const auto body = std::make_shared<const std::string>();
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) send_note(goodbye, rank, body);
  }
  const auto is_awaited = [this](int rank) {
    return rank != rank_ && !has_left_[static_cast<std::size_t>(rank)] && lost(rank).empty();
  };
  const Deadline deadline = Deadline::in(to_leave);
  Backoff backoff;
  for (int rank = 0; rank < size() && !deadline.passed();) {
    if (!is_awaited(rank)) {
      ++rank;
    } else {
      progress();
      backoff.pause();
    }
  }
}

void Peers::acknowledged(std::uint64_t tag) {
  const auto found = unacknowledged_.find(tag);
  if (found == unacknowledged_.end()) return;  // of a stranger
  MessageSlot& slot = *found->second;
  unacknowledged_.erase(found);
  MessageSlots::step(slot);
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
