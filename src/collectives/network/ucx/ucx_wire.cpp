#include <algorithm>

#include "collectives/network/transports.hpp"
#include "collectives/network/ucx/ucx_peers.hpp"

namespace weft::detail {
namespace {

Messages::Ended outcome(const MessageSlot& slot, ucs_status_t status, std::size_t bytes) {
  if (status == UCS_OK) return {.label = slot.label, .bytes = bytes};
  if (status == UCS_ERR_MESSAGE_TRUNCATED)
    return {.label = slot.label, .bytes = slot.bytes, .was_longer = true};
  return {.label = slot.label, .lost = ucx().ucs_status_string(status)};
}

}  // namespace

void UcxPeers::send(std::span<const std::byte> data, std::uint64_t tag, MessageSlot& slot) {
  if (slot.is_part) await(slot);
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.user_data = &slot;
  how.cb.send = [](void* request, ucs_status_t status, void* user_data) {
    sent(*static_cast<MessageSlot*>(user_data), status);
    ucx().ucp_request_free(request);
  };
  if (at(slot.peer).endpoint == nullptr) return;  // broken off, as is told when the message is collected
  slot.is_read = true;
  const ucs_status_ptr_t request =
      ucx().ucp_tag_send_nbx(at(slot.peer).endpoint, data.data(), data.size(), tag, &how);
  if (!UCS_PTR_IS_PTR(request)) sent(slot, UCS_PTR_STATUS(request));
}

void UcxPeers::sent(MessageSlot& slot, ucs_status_t status) {
  slot.is_read = false;
  status == UCS_OK ? Messages::step(slot) : slot.all->end(slot, outcome(slot, status, 0));
}

void UcxPeers::receive(std::span<std::byte> data, std::uint64_t tag, MessageSlot& slot) {
  if (is_frozen_) return;  // as is told when the message is collected
  slot.transport = this;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  how.user_data = &slot;
  how.cb.recv = [](void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* user_data) {
    MessageSlot& it = *static_cast<MessageSlot*>(user_data);
    static_cast<UcxPeers*>(it.transport)->received(it, status, info->length);
    ucx().ucp_request_free(request);
  };
  const ucs_status_ptr_t request =
      ucx().ucp_tag_recv_nbx(worker_, data.data(), data.size(), tag, ~ucp_tag_t{0}, &how);
  if (UCS_PTR_IS_ERR(request)) {
    slot.all->end(slot, outcome(slot, UCS_PTR_STATUS(request), 0));
  } else if (slot.steps > 0) {
    slot.request = request;
  }
}

void UcxPeers::received(MessageSlot& slot, ucs_status_t status, std::size_t bytes) {
  if (slot.is_part && status == UCS_OK) acknowledge(slot.peer, slot.tag);
  slot.all->end(slot, outcome(slot, status, bytes));
}

void UcxPeers::cancel(const MessageSlot& slot) {
  if (slot.request != nullptr) ucx().ucp_request_cancel(worker_, slot.request);
}

// UCX neither takes back a message that it sends nor one that is half there, and their memory is its user's, who may free it. Most end
// within a moment, when the network has taken them or the rest has come. A peer with others is broken off: with the endpoint UCX drops what
// is sent to it. What the peer sends may still come, and would be written where its message began: then this rank receives nothing any more.
void UcxPeers::settle(const Messages& canceled) noexcept {
  const auto goes_on = [this](const MessageSlot& slot) {
    const bool may_come = slot.request != nullptr && !at(slot.peer).has_failed;
    return slot.steps > 0 && !is_frozen_ && (slot.is_read || may_come);
  };
  const auto& slots = canceled.slots();
  for (const Deadline deadline = Deadline::in(to_break_off); !deadline.passed();) {
    if (std::ranges::none_of(slots, goes_on)) return;
    progress(nullptr);
  }
  for (const MessageSlot& slot : slots) {
    if (goes_on(slot))
      break_off(slot.peer, "it did not take, or send, the rest of a message of an operation that failed");
  }
  if (std::ranges::none_of(slots, goes_on)) return;
  is_frozen_ = true;
  for (int other = 0; other < size(); ++other)
    break_off(other, "a message of an operation that failed is half there, and no other is received");
}

void UcxPeers::break_off(int rank_of_world, const char* why) noexcept {
  if (rank_of_world == rank()) return;
  Peer& peer = peers_[static_cast<std::size_t>(rank_of_world)];
  lose(rank_of_world, text("its connection was broken off: ", why));
  if (peer.endpoint == nullptr || is_frozen_) return;
  const ucs_status_ptr_t closing = begin_to_close(peer, true);
  if (UCS_PTR_IS_PTR(closing)) finish_closing({closing}, Deadline::in(to_break_off));
}

std::shared_ptr<Peers> make_ucx_peers(Rendezvous& rendezvous, const Environment& environment,
                                      Deadline deadline) {
  return std::make_shared<UcxPeers>(rendezvous, environment, deadline);
}

}  // namespace weft::detail
