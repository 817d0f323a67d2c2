#include "collectives/ucx/ucx_wire.hpp"

#include <algorithm>
#include <numeric>

#include "collectives/ucx/ucx_peers.hpp"

namespace weft::detail {
namespace {

class UcxMessages final : public Messages {
 public:
  UcxMessages(UcxPeers& all, std::shared_ptr<const Group> group)
      : all_(all), group_(std::move(group)), state_(std::make_shared<State>()) {
    state_->peers = &all_;
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

  UcxPeers& all_;  // the group keeps it alive
  std::shared_ptr<const Group> group_;
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
  const int to = group_->in_world(peer);
  Slot& slot = state_->take(label, data.size(), to, is_part ? 2 : 1);
  if (is_part) all_.await(whole_tag(group_->number, to, tag), slot);
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.user_data = &slot;
  how.cb.send = [](void* request, ucs_status_t status, void* user_data) {
    sent(*static_cast<Slot*>(user_data), status);
    ucx().ucp_request_free(request);
  };
  const ucs_status_ptr_t request = ucx().ucp_tag_send_nbx(all_.endpoint(to), data.data(), data.size(),
                                                          whole_tag(group_->number, all_.rank(), tag), &how);
  if (!UCS_PTR_IS_PTR(request)) sent(slot, UCS_PTR_STATUS(request));
}

void UcxMessages::sent(Slot& slot, ucs_status_t status) {
  status == UCS_OK ? slot.state->step(slot) : slot.state->end(slot, outcome(slot, status, 0));
}

void UcxMessages::receive(std::size_t label, std::span<std::byte> data, int peer, int tag, bool is_part) {
  const int from = group_->in_world(peer);
  Slot& slot = state_->take(label, data.size(), from, 1);
  slot.is_part = is_part;
  slot.acknowledged_by = whole_tag(group_->number, all_.rank(), tag);
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  how.user_data = &slot;
  how.cb.recv = [](void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* user_data) {
    received(*static_cast<Slot*>(user_data), status, info->length);
    ucx().ucp_request_free(request);
  };
  const ucs_status_ptr_t request = ucx().ucp_tag_recv_nbx(
      all_.worker(), data.data(), data.size(), whole_tag(group_->number, from, tag), ~ucp_tag_t{0}, &how);
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
  all_.progress();
  collected_.clear();
  collected_.swap(state_->ended);
  if (all_.losses() == 0) return collected_;
  for (const Slot& slot : state_->slots) {
    const std::string& lost = all_.lost(slot.peer);
    if (slot.steps > 0 && !lost.empty()) collected_.push_back({.label = slot.label, .lost = lost});
  }
  return collected_;
}

void UcxMessages::abandon(std::shared_ptr<void> memory) noexcept {
  const auto entered = all_.enter();
  all_.keep(state_);
  all_.keep(std::move(memory));
  for (Slot& slot : state_->slots) {
    if (slot.request != nullptr) ucx().ucp_request_cancel(all_.worker(), slot.request);
  }
}

}  // namespace

std::unique_ptr<Messages> UcxPeers::messages(std::shared_ptr<const Group> group) {
  return std::make_unique<UcxMessages>(*this, std::move(group));
}

std::shared_ptr<Wire> make_ucx_wire(const std::shared_ptr<Rendezvous>& rendezvous,
                                    const Environment& environment, Deadline deadline,
                                    std::chrono::nanoseconds timeout) {
  return make_group_wire(std::make_shared<UcxPeers>(*rendezvous, environment, deadline), *rendezvous,
                         deadline, timeout);
}

}  // namespace weft::detail
