#include "collectives/network/tcp/tcp_peers.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "collectives/network/transports.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t ahead_bytes = 32 << 10;
constexpr std::uint32_t longest_message = 1 << 20;  // a segment has 60 KiB, a note less
constexpr int most_pieces = 32;                     // written at once
constexpr int most_reads = 16;                      // at a time: who waits also has sums to do

}  // namespace

TcpPeers::TcpPeers(Rendezvous& rendezvous, const Environment& environment, Deadline deadline)
    : Peers(rendezvous.rank(), rendezvous.size()),
      connections_(connect_by_tcp(rendezvous, environment, deadline)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      links_(static_cast<std::size_t>(rendezvous.size())),
      ahead_(ahead_bytes) {
  if (events_.get() < 0) throw system_error("cannot wait for connections");
  for (int rank = 0; rank < rendezvous.size(); ++rank) link(rank).rank = rank;
  for (auto& [rank, socket] : connections_.sockets) {
    link(rank).socket = &socket;
    epoll_event event{EPOLLIN, {.u32 = static_cast<std::uint32_t>(rank)}};
    if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, socket.native_handle(), &event) != 0)
      throw system_error("cannot wait for a connection");
  }
}

TcpPeers::~TcpPeers() {
  const auto entered = enter();
  leave();
}

void TcpPeers::rest(std::chrono::microseconds at_most) {
  rest_on(events_.get(), at_most);
}

void TcpPeers::progress(Messages* /*whose*/) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    Link& one = link(static_cast<int>(event.data.u32));
    if ((event.events & EPOLLOUT) != 0) write(one);
    if ((event.events & ~EPOLLOUT) != 0) read(one);
  }
}

// --- sending

void TcpPeers::send(std::span<const std::byte> data, std::uint64_t tag, MessageSlot& slot) {
  const Head head{Kind::message, static_cast<std::uint32_t>(data.size()), tag};
  if (slot.is_part) await(slot);
  post(link(slot.peer), {head, data.data(), &slot});
}

void TcpPeers::send_note(const RankGroup& group, int to, const std::shared_ptr<const std::string>& body) {
  const Head head{Kind::note, static_cast<std::uint32_t>(body->size()), group.number};
  post(link(to), {head, reinterpret_cast<const std::byte*>(body->data()), nullptr, body});
}

void TcpPeers::post(Link& link, Outgoing outgoing) {
  if (link.takes_nothing || !link.is_open) return;
  link.outbox.push_back(std::move(outgoing));
  if (!link.waits_to_send) write(link);
}

void TcpPeers::write(Link& link) {
  while (!link.outbox.empty() && link.is_open) {
    std::array<asio::const_buffer, most_pieces> pieces;
    std::size_t count = 0;
    std::size_t skip = link.sent;
    const auto add = [&](const void* data, std::size_t bytes) {
      if (skip < bytes) pieces[count++] = {static_cast<const char*>(data) + skip, bytes - skip};
      skip -= std::min(skip, bytes);
    };
    for (const Outgoing& one : link.outbox) {
      if (count + 2 > pieces.size()) break;
      add(&one.head, sizeof(Head));
      add(one.data, one.head.bytes);
    }
    error_code failed;
    const std::size_t bytes = link.socket->write_some(std::span(pieces.data(), count), failed);
    if (failed == asio::error::would_block || failed == asio::error::try_again) return watch(link, true);
    if (failed) {  // what it said before is still to be read, and then its end
      link.outbox.clear();
      link.takes_nothing = true;
      break;
    }
    forget_sent(link, bytes);
  }
  watch(link, false);
}

void TcpPeers::forget_sent(Link& link, std::size_t bytes) {
  link.sent += bytes;
  while (!link.outbox.empty() && link.sent >= sizeof(Head) + link.outbox.front().head.bytes) {
    link.sent -= sizeof(Head) + link.outbox.front().head.bytes;
    if (MessageSlot* const slot = link.outbox.front().slot) Messages::step(*slot);
    link.outbox.pop_front();
  }
}

void TcpPeers::watch(Link& link, bool for_room) {
  if (std::exchange(link.waits_to_send, for_room) == for_room || !link.is_open) return;
  epoll_event event{for_room ? EPOLLIN | EPOLLOUT : EPOLLIN, {.u32 = static_cast<std::uint32_t>(link.rank)}};
  (void)epoll_ctl(events_.get(), EPOLL_CTL_MOD, link.socket->native_handle(), &event);
}

// --- receiving

void TcpPeers::receive(std::span<std::byte> data, std::uint64_t tag, MessageSlot& slot) {
  Link& from = link(slot.peer);
  const auto found = from.earlier.find(tag);
  // A message that has begun to arrive for an earlier receive is not for this one.
  const auto is_free = [](const Early& one) { return one.room.slot == nullptr; };
  if (found != from.earlier.end()) {
    const auto one = std::ranges::find_if(found->second, is_free);
    if (one != found->second.end() && !one->is_whole) {
      one->room = {data, &slot};
      return;
    }
    if (one != found->second.end()) {
      std::memcpy(data.data(), one->data.data(), std::min(data.size(), one->data.size()));
      arrived(from, {data, &slot}, one->data.size());
      found->second.erase(one);
      if (found->second.empty()) from.earlier.erase(found);
      return;
    }
  }
  from.expected[tag].push_back({data, &slot});
}

// The memory is its user's, who may free it from now on. Messages are whole on the connection all the same: what comes for it is dropped,
// what goes out goes out from a copy.
void TcpPeers::cancel(const MessageSlot& slot) {
  Link& other = link(slot.peer);
  const auto forget = [&](Expected& room) {
    if (room.slot == &slot) room = {};
  };
  for (auto& [tag, rooms] : other.expected) std::ranges::for_each(rooms, forget);
  for (auto& [tag, all] : other.earlier) {
    for (Early& early : all) forget(early.room);
  }
  if (other.in_data && other.room.slot == &slot) {
    other.dropped += std::exchange(other.into, {}).size();
    other.room = {};
  }
  for (Outgoing& one : other.outbox) {
    if (one.slot != &slot) continue;
    one.body = std::make_shared<const std::string>(reinterpret_cast<const char*>(one.data), one.head.bytes);
    one.data = reinterpret_cast<const std::byte*>(one.body->data());
    one.slot = nullptr;
  }
}

void TcpPeers::read(Link& link) {
  for (int i = 0; i < most_reads && link.is_open; ++i) {
    const std::size_t begun = link.begun_bytes;  // the rest of that head comes behind it
    std::memcpy(ahead_.data(), link.begun.data(), begun);
    const std::array<asio::mutable_buffer, 2> rooms{
        asio::buffer(link.into.data(), link.into.size()),
        asio::buffer(ahead_.data() + begun, ahead_.size() - begun)};
    error_code failed;
    const std::size_t bytes = link.socket->read_some(rooms, failed);
    const std::size_t direct = std::min(bytes, link.into.size());
    link.into = link.into.subspan(direct);
    ahead_begin_ = 0;
    ahead_end_ = begun + bytes - direct;
    if (failed == asio::error::would_block || failed == asio::error::try_again) return;
    if (failed)
      return close(link, failed == asio::error::eof ? "its connection has closed" : failed.message());
    while (take_ahead(link)) {
    }
    if (!link.is_open) return;  // what it says makes no sense
    link.begun_bytes = ahead_end_ - ahead_begin_;
    std::memcpy(link.begun.data(), ahead_.data() + ahead_begin_, link.begun_bytes);
  }
}

/// Moves on by what has been read. @returns false when more has to be read first: then less than a head is left of it
bool TcpPeers::take_ahead(Link& link) {
  const std::size_t there = ahead_end_ - ahead_begin_;
  const std::byte* const from = ahead_.data() + ahead_begin_;
  if (!link.in_data) {
    if (there < sizeof(Head)) return false;
    std::memcpy(&link.head, from, sizeof(Head));
    ahead_begin_ += sizeof(Head);
    begin(link);
    return link.is_open;
  }
  const std::size_t copied = std::min(there, link.into.size());
  if (copied > 0) std::memcpy(link.into.data(), from, copied);
  link.into = link.into.subspan(copied);
  const std::size_t dropped = link.into.empty() ? std::min(there - copied, link.dropped) : 0;
  link.dropped -= dropped;
  ahead_begin_ += copied + dropped;
  if (!link.into.empty() || link.dropped > 0) return false;
  end(link);
  return true;
}

/// Its head is there: where its data goes.
void TcpPeers::begin(Link& link) {
  link.in_data = true;
  link.room = {};
  link.early = nullptr;
  link.dropped = 0;
  const Head& head = link.head;
  const bool makes_sense =
      head.bytes <= longest_message && head.kind >= Kind::message && head.kind <= Kind::acknowledgement;
  if (!makes_sense) return close(link, "it sends what is no message of weft");
  if (head.kind != Kind::message) {
    link.note.resize(head.bytes);
    link.into = std::as_writable_bytes(std::span(link.note));
  } else if (const auto found = link.expected.find(head.tag); found != link.expected.end()) {
    link.room = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) link.expected.erase(found);
    link.into = link.room.data.first(std::min<std::size_t>(head.bytes, link.room.data.size()));
    link.dropped = head.bytes - link.into.size();
  } else {
    link.early = &link.earlier[head.tag].emplace_back();
    link.early->data.resize(head.bytes);
    link.into = link.early->data;
  }
}

/// All of it is there.
void TcpPeers::end(Link& link) {
  link.in_data = false;
  const Head& head = link.head;
  switch (head.kind) {
    case Kind::note:
      keep_note(static_cast<std::uint32_t>(head.tag), {link.rank, std::move(link.note)});
      return;
    case Kind::acknowledgement:
      acknowledged(head.tag);
      return;
    case Kind::message:
      break;
  }
  if (link.early == nullptr) return arrived(link, link.room, head.bytes);
  link.early->is_whole = true;
  if (link.early->room.slot == nullptr) return;
  std::list<Early>& all = link.earlier[head.tag];
  const Early early = std::move(*link.early);
  std::erase_if(all, [&](const Early& one) { return &one == link.early; });
  if (all.empty()) link.earlier.erase(head.tag);
  std::memcpy(early.room.data.data(), early.data.data(), std::min(early.room.data.size(), early.data.size()));
  arrived(link, early.room, early.data.size());
}

void TcpPeers::arrived(Link& link, const Expected& room, std::size_t bytes) {
  if (room.slot == nullptr) return;  // it was canceled
  MessageSlot& slot = *room.slot;
  if (slot.is_part) post(link, {Head{Kind::acknowledgement, 0, slot.tag}});
  if (bytes > room.data.size()) {
    slot.all->end(slot, {.label = slot.label, .bytes = slot.bytes, .was_longer = true});
  } else {
    slot.all->end(slot, {.label = slot.label, .bytes = bytes});
  }
}

/// What was under way with it ends with that, where it is collected.
void TcpPeers::close(Link& link, const std::string& why) {
  if (!link.is_open) return;
  link.is_open = false;
  lose(link.rank, why);
  error_code ignored;
  link.socket->close(ignored);  // and epoll forgets it
  link.outbox.clear();
}

std::shared_ptr<Peers> make_tcp_peers(Rendezvous& rendezvous, const Environment& environment,
                                      Deadline deadline) {
  return std::make_shared<TcpPeers>(rendezvous, environment, deadline);
}

}  // namespace weft::detail
