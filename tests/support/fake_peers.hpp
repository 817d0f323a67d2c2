#pragma once
// A transport of one rank that carries nothing: it keeps what it is asked for, and a test says what has come of it.

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "collectives/network/engine/peers.hpp"

namespace weft::test {

class FakePeers : public detail::Peers {
 public:
  FakePeers(int rank, int size) : Peers(rank, size) {}

  std::string name() const override { return "fake"; }
  void rest(std::chrono::microseconds) override {}
  void progress(detail::Messages* whose) override { looked_for = whose; }
  void send(std::span<const std::byte>, std::uint64_t tag, detail::MessageSlot& slot) override {
    if (slot.is_part) await(slot);
    posted.push_back({&slot, tag});
  }
  void receive(std::span<std::byte>, std::uint64_t tag, detail::MessageSlot& slot) override {
    posted.push_back({&slot, tag});
  }
  void cancel(const detail::MessageSlot& slot) override { canceled.push_back(&slot); }
  void send_note(const detail::RankGroup& group, int to,
                 const std::shared_ptr<const std::string>& body) override {
    notes.push_back({group.number, to, *body});
  }
  using Peers::acknowledged;
  using Peers::keep_note;
  using Peers::lose;

  struct Posted {
    detail::MessageSlot* slot;
    std::uint64_t tag;
  };
  struct Note {
    std::uint32_t group;
    int to;
    std::string body;
    bool operator==(const Note&) const = default;
  };
  std::vector<Posted> posted;
  std::vector<const detail::MessageSlot*> canceled;
  std::vector<Note> notes;
  const detail::Messages* looked_for = nullptr;
};

}  // namespace weft::test
