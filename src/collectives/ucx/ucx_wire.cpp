#include "collectives/ucx/ucx_wire.hpp"

#include <algorithm>
#include <numeric>

#include "collectives/ucx/ucx_peers.hpp"

namespace weft::detail {
namespace {

// UCX matches 64 bits: group, sender, tag.
constexpr int tag_bits = 28;
constexpr int rank_bits = 16;
constexpr std::uint32_t most_groups = 1U << (64 - tag_bits - rank_bits);

ucp_tag_t whole_tag(std::uint32_t group, int sender, int tag) {
  return (ucp_tag_t{group} << rank_bits | static_cast<std::uint32_t>(sender)) << tag_bits |
         static_cast<std::uint32_t>(tag);
}

/// Some of the ranks of a world.
struct UcxGroup {
  std::shared_ptr<UcxPeers> all;
  std::uint32_t number = 0;
  int rank = 0;
  std::vector<int> ranks{};  ///< of the world, by rank

  int in_world(int one) const { return ranks[static_cast<std::size_t>(one)]; }
};

class UcxMessages final : public Messages {
 public:
  explicit UcxMessages(std::shared_ptr<UcxGroup> group)
      : group_(std::move(group)), state_(std::make_shared<State>()) {
    state_->peers = group_->all.get();
  }

  void send(std::size_t label, std::span<const std::byte> data, int peer, int tag, bool is_part) override;
  void receive(std::size_t label, std::span<std::byte> data, int peer, int tag, bool is_part) override;
  std::span<const Ended> collect() override;
  void abandon(std::shared_ptr<void> memory) noexcept override;

 private:
  struct State;
  /// A message under way.
  struct Slot final : UcxPart {
    void arrived() override { state->step(*this); }

    State* state = nullptr;
    std::size_t label = 0;
    std::size_t bytes = 0;
    int peer = 0;             ///< of the world
    int steps = 0;            ///< that are still to come; none: not under way
    void* request = nullptr;  ///< of a received one
    bool is_part = false;
    ucp_tag_t acknowledged_by = 0;
  };
  /// What UCX's callbacks reach.
  struct State {
    UcxPeers* peers = nullptr;
    std::deque<Slot> slots{};  // do not move
    std::vector<Slot*> unused{};
    std::vector<Ended> ended{};

    Slot& take(std::size_t label, std::size_t bytes, int peer, int steps);
    void step(Slot& slot) {
      if (--slot.steps == 0) end(slot, {.label = slot.label, .bytes = slot.bytes});
    }
    void end(Slot& slot, const Ended& how) {
      ended.push_back(how);
      slot.steps = 0;
      slot.request = nullptr;
      unused.push_back(&slot);
    }
  };

  static Ended outcome(const Slot& slot, ucs_status_t status, std::size_t bytes) {
    if (status == UCS_OK) return {.label = slot.label, .bytes = bytes};
    if (status == UCS_ERR_MESSAGE_TRUNCATED)
      return {.label = slot.label, .bytes = slot.bytes, .was_longer = true};
    return {.label = slot.label, .lost = ucx().ucs_status_string(status)};
  }

  static void sent(Slot& slot, ucs_status_t status);
  static void received(Slot& slot, ucs_status_t status, std::size_t bytes);

  std::shared_ptr<UcxGroup> group_;
  std::shared_ptr<State> state_;
  std::vector<Ended> collected_;
};

UcxMessages::Slot& UcxMessages::State::take(std::size_t label, std::size_t bytes, int peer, int steps) {
  if (unused.empty()) unused.push_back(&slots.emplace_back());
  Slot& taken = *unused.back();
  unused.pop_back();
  taken.state = this;
  taken.label = label;
  taken.bytes = bytes;
  taken.peer = peer;
  taken.steps = steps;
  return taken;
}

void UcxMessages::send(std::size_t label, std::span<const std::byte> data, int peer, int tag, bool is_part) {
  UcxPeers& all = *group_->all;
  const int to = group_->in_world(peer);
  Slot& slot = state_->take(label, data.size(), to, is_part ? 2 : 1);
  if (is_part) all.await(whole_tag(group_->number, to, tag), slot);
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.user_data = &slot;
  how.cb.send = [](void* request, ucs_status_t status, void* user_data) {
    sent(*static_cast<Slot*>(user_data), status);
    ucx().ucp_request_free(request);
  };
  const ucs_status_ptr_t request = ucx().ucp_tag_send_nbx(all.endpoint(to), data.data(), data.size(),
                                                          whole_tag(group_->number, all.rank(), tag), &how);
  if (!UCS_PTR_IS_PTR(request)) sent(slot, UCS_PTR_STATUS(request));
}

void UcxMessages::sent(Slot& slot, ucs_status_t status) {
  status == UCS_OK ? slot.state->step(slot) : slot.state->end(slot, outcome(slot, status, 0));
}

void UcxMessages::receive(std::size_t label, std::span<std::byte> data, int peer, int tag, bool is_part) {
  UcxPeers& all = *group_->all;
  const int from = group_->in_world(peer);
  Slot& slot = state_->take(label, data.size(), from, 1);
  slot.is_part = is_part;
  slot.acknowledged_by = whole_tag(group_->number, all.rank(), tag);
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  how.user_data = &slot;
  how.cb.recv = [](void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* user_data) {
    received(*static_cast<Slot*>(user_data), status, info->length);
    ucx().ucp_request_free(request);
  };
  const ucs_status_ptr_t request = ucx().ucp_tag_recv_nbx(
      all.worker(), data.data(), data.size(), whole_tag(group_->number, from, tag), ~ucp_tag_t{0}, &how);
  if (UCS_PTR_IS_ERR(request)) {
    state_->end(slot, outcome(slot, UCS_PTR_STATUS(request), 0));
  } else if (slot.steps > 0) {
    slot.request = request;
  }
}

void UcxMessages::received(Slot& slot, ucs_status_t status, std::size_t bytes) {
  if (slot.is_part && status == UCS_OK) slot.state->peers->acknowledge(slot.peer, slot.acknowledged_by);
  slot.state->end(slot, outcome(slot, status, bytes));
}

std::span<const Messages::Ended> UcxMessages::collect() {
  group_->all->progress();
  collected_.clear();
  collected_.swap(state_->ended);
  if (group_->all->losses() == 0) return collected_;
  for (const Slot& slot : state_->slots) {
    const std::string& lost = group_->all->lost(slot.peer);
    if (slot.steps > 0 && !lost.empty()) collected_.push_back({.label = slot.label, .lost = lost});
  }
  return collected_;
}

void UcxMessages::abandon(std::shared_ptr<void> memory) noexcept {
  const auto entered = group_->all->enter();
  group_->all->keep(state_);
  group_->all->keep(std::move(memory));
  for (Slot& slot : state_->slots) {
    if (slot.request != nullptr) ucx().ucp_request_cancel(group_->all->worker(), slot.request);
  }
}

class UcxSideChannel final : public SideChannel {
 public:
  explicit UcxSideChannel(std::shared_ptr<UcxGroup> group) : group_(std::move(group)) {}

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
  std::shared_ptr<UcxGroup> group_;
};

class UcxWire final : public Wire {
 public:
  UcxWire(std::shared_ptr<UcxGroup> group, std::chrono::nanoseconds timeout)
      : group_(std::move(group)), timeout_(timeout), side_channel_(group_) {}

  std::string name() const override { return "UCX"; }
  int rank() const override { return group_->rank; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }
  int largest_tag() const override { return (1 << tag_bits) - 1; }
  std::unique_lock<std::mutex> enter() override { return group_->all->enter(); }
  std::unique_ptr<Messages> messages() override { return std::make_unique<UcxMessages>(group_); }
  SideChannel& side_channel() override { return side_channel_; }
  void rest(std::chrono::microseconds at_most) override { group_->all->rest(at_most); }
  std::shared_ptr<Wire> split(const std::vector<int>& members,
                              const std::shared_ptr<Rendezvous>& rendezvous) override {
    std::vector<int> ranks;
    for (const int member : members) ranks.push_back(group_->in_world(member));
    return of(group_->all, std::move(ranks), *rendezvous, Deadline::in(timeout_), timeout_);
  }
  void give_up() noexcept override { group_->all->give_up(); }

  static std::shared_ptr<Wire> of(const std::shared_ptr<UcxPeers>& all, std::vector<int> ranks,
                                  Rendezvous& rendezvous, Deadline deadline,
                                  std::chrono::nanoseconds timeout) {
    const std::uint32_t number = all->new_group(rendezvous, deadline);
    if (number >= most_groups) {
      throw Error(ErrorKind::usage, text("more than ", most_groups, " communicators were made over UCX"),
                  "keep those that are needed again");
    }
    auto group = std::make_shared<UcxGroup>(UcxGroup{all, number, rendezvous.rank(), std::move(ranks)});
    return std::make_shared<UcxWire>(std::move(group), timeout);
  }

 private:
  std::shared_ptr<UcxGroup> group_;
  std::chrono::nanoseconds timeout_;
  UcxSideChannel side_channel_;
};

}  // namespace

std::shared_ptr<Wire> make_ucx_wire(const std::shared_ptr<Rendezvous>& rendezvous,
                                    const Environment& environment, Deadline deadline,
                                    std::chrono::nanoseconds timeout) {
  if (rendezvous->size() > 1 << rank_bits) {
    throw Error(ErrorKind::usage,
                text(rendezvous->size(), " ranks are more than weft's tags of UCX tell apart"),
                text("at most ", 1 << rank_bits, " ranks meet over UCX"));
  }
  const auto all = std::make_shared<UcxPeers>(*rendezvous, environment, deadline);
  std::vector<int> ranks(static_cast<std::size_t>(rendezvous->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return UcxWire::of(all, std::move(ranks), *rendezvous, deadline, timeout);
}

}  // namespace weft::detail
