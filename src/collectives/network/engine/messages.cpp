#include "collectives/network/engine/messages.hpp"

#include "collectives/network/engine/peers.hpp"

namespace weft::detail {

MessageSlot& Messages::take(std::size_t label, std::size_t bytes, int peer, bool is_part) {
  if (unused_.empty()) unused_.push_back(&slots_.emplace_back());
  MessageSlot& taken = *unused_.back();
  unused_.pop_back();
  taken = {.all = this, .label = label, .bytes = bytes, .peer = peer, .steps = 1, .is_part = is_part};
  return taken;
}

void Messages::send(std::size_t label, std::span<const std::byte> data, int peer, int tag, bool is_part) {
  const int to = group.in_transport(peer);
  MessageSlot& slot = take(label, data.size(), to, is_part);
  slot.tag = whole_tag(group.number, to, tag);
  group.all->send(data, whole_tag(group.number, group.in_transport(group.rank), tag), slot);
}

void Messages::receive(std::size_t label, std::span<std::byte> data, int peer, int tag, bool is_part) {
  const int from = group.in_transport(peer);
  MessageSlot& slot = take(label, data.size(), from, is_part);
  slot.tag = whole_tag(group.number, group.in_transport(group.rank), tag);
  group.all->receive(data, whole_tag(group.number, from, tag), slot);
}

std::span<const Messages::Ended> Messages::collect() {
  group.all->progress(this);
  collected_.clear();
  collected_.swap(ended_);
  if (group.all->losses() == 0) return collected_;
  for (const MessageSlot& slot : slots_) {
    const std::string& lost = group.all->lost(slot.peer);
    if (slot.steps > 0 && !lost.empty()) collected_.push_back({.label = slot.label, .lost = lost});
  }
  return collected_;
}

void Messages::abandon(std::shared_ptr<void> memory) noexcept {
  const auto entered = group.all->enter();
  group.all->keep(shared_from_this());
  group.all->keep(std::move(memory));
  for (const MessageSlot& slot : slots_) {
    if (slot.steps > 0) group.all->cancel(slot);
  }
  group.all->settle(*this);
}

}  // namespace weft::detail
