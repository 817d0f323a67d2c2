#include "collectives/ucx/ucx_wire.hpp"

#include "collectives/ucx/ucx_peers.hpp"

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
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.user_data = &slot;
  how.cb.send = [](void* request, ucs_status_t status, void* user_data) {
    sent(*static_cast<MessageSlot*>(user_data), status);
    ucx().ucp_request_free(request);
  };
  const ucs_status_ptr_t request =
      ucx().ucp_tag_send_nbx(at(slot.peer).endpoint, data.data(), data.size(), tag, &how);
  if (!UCS_PTR_IS_PTR(request)) sent(slot, UCS_PTR_STATUS(request));
}

void UcxPeers::sent(MessageSlot& slot, ucs_status_t status) {
  status == UCS_OK ? MessageSlots::step(slot) : slot.all->end(slot, outcome(slot, status, 0));
}

void UcxPeers::receive(std::span<std::byte> data, std::uint64_t tag, MessageSlot& slot) {
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
  if (slot.request != nullptr) ucx().ucp_request_cancel(worker_, slot.request);  // a send cannot be
}

std::shared_ptr<Wire> make_ucx_wire(const std::shared_ptr<Rendezvous>& rendezvous,
                                    const Environment& environment, Deadline deadline,
                                    std::chrono::nanoseconds timeout) {
  return make_group_wire(std::make_shared<UcxPeers>(*rendezvous, environment, deadline), *rendezvous,
                         deadline, timeout);
}

}  // namespace weft::detail
