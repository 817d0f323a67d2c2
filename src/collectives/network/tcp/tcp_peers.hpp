#pragma once
// All ranks of a world over TCP: a connection each, on which messages with tags, notes and acknowledgements follow each other.
//
// A message is a head of 16 bytes and its data. It goes straight from the sender's memory, and straight into the receiver's where that
// is known when it comes; an earlier one waits in memory of its own, of which senders fill no more than 8 segments a flow
// (wire_exchange.cpp). An epoll descriptor tells which connections have something, and wakes who sleeps.
//
// A connection that breaks is a lost rank. A link that is down for a moment breaks none: TCP sends again what was lost.

#include <array>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "collectives/network/engine/peers.hpp"
#include "collectives/sockets/tcp_asio.hpp"
#include "core/base/descriptor.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {

struct TcpLinks {
  std::unique_ptr<asio::io_context> context;  ///< before its sockets
  std::map<int, tcp::socket> sockets;         ///< by rank, without the own one; non-blocking
};

/// Collective over `rendezvous`. @throws Error (usage) where WEFT_INTERFACE names none of this machine's, (timeout) with the ranks that were
/// not reached and where, (system)
TcpLinks connect_by_tcp(Rendezvous& rendezvous, const Environment& environment, Deadline deadline);

class TcpPeers final : public Peers {
 public:
  /// Collective over the ranks of `rendezvous`. @throws Error as connect_by_tcp does
  TcpPeers(Rendezvous& rendezvous, const Environment& environment, Deadline deadline);
  ~TcpPeers() override;

  std::string name() const override { return "TCP"; }
  void rest(std::chrono::microseconds at_most) override;

  void progress(Messages* whose) override;
  void send(std::span<const std::byte> data, std::uint64_t tag, MessageSlot& slot) override;
  void receive(std::span<std::byte> data, std::uint64_t tag, MessageSlot& slot) override;
  void cancel(const MessageSlot& slot) override;
  void send_note(const RankGroup& group, int to, const std::shared_ptr<const std::string>& body) override;

 private:
  enum class Kind : std::uint32_t { message = 1, note, acknowledgement };
  /// Before the data of everything that travels.
  struct Head {
    Kind kind{};
    std::uint32_t bytes = 0;
    std::uint64_t tag = 0;  ///< of a note its group
  };
  /// What is to be sent, and what keeps it.
  struct Outgoing {
    Head head;
    const std::byte* data = nullptr;
    MessageSlot* slot = nullptr;
    std::shared_ptr<const std::string> body{};
  };
  /// Room for a message that has not come.
  struct Expected {
    std::span<std::byte> data{};
    MessageSlot* slot = nullptr;
  };
  /// A message for which there was no room when it began to come.
  struct Early {
    std::vector<std::byte> data{};
    bool is_whole = false;
    Expected room{};  ///< meanwhile
  };
  struct Link {
    int rank = 0;
    tcp::socket* socket = nullptr;  ///< none to oneself
    bool is_open = true;
    std::deque<Outgoing> outbox{};
    std::size_t sent = 0;  ///< bytes of the first, with its head
    bool waits_to_send = false;
    bool takes_nothing = false;  ///< its connection is broken, which read() is to find
    // What is coming: its head, then its data into memory that knows it.
    std::array<std::byte, sizeof(Head)> begun{};  ///< of a head, the rest of which has not come
    std::size_t begun_bytes = 0;
    bool in_data = false;
    Head head{};
    std::span<std::byte> into{};  ///< what is missing of its data; bytes beyond it are dropped
    std::size_t dropped = 0;      ///< of those that are still to come
    Expected room{};
    Early* early = nullptr;
    std::string note{};
    std::unordered_map<std::uint64_t, std::deque<Expected>> expected{};
    std::unordered_map<std::uint64_t, std::list<Early>> earlier{};  // which do not move
  };

  Link& link(int rank) { return links_[static_cast<std::size_t>(rank)]; }
  void watch(Link& link, bool for_room);
  void post(Link& link, Outgoing outgoing);
  void write(Link& link);
  void forget_sent(Link& link, std::size_t bytes);
  void read(Link& link);
  bool take_ahead(Link& link);
  void begin(Link& link);
  void end(Link& link);
  void arrived(Link& link, const Expected& room, std::size_t bytes);
  void close(Link& link, const std::string& why);

  TcpLinks connections_;
  Descriptor events_;  // epoll's
  std::vector<Link> links_;
  /// Bytes of the connection that is being read, before it is known where they belong: one for all, or each rank would cost as much memory.
  std::vector<std::byte> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
};

}  // namespace weft::detail
