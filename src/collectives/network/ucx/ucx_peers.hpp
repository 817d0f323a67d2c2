#pragma once
// All ranks of a world as UCX reaches them: one worker, an endpoint to each, and short notes beside the data.
//
// The worker is called by one thread at a time, which holds enter(). A rank whose endpoint fails is lost from then on, and
// stays so. At its end a rank waits for up to two seconds until the others have said goodbye: a connection that is closed
// while data is on its way in takes what is on its way out with it. After give_up() it does not wait.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/network/engine/peers.hpp"
#include "collectives/network/ucx/abort_message.hpp"
#include "collectives/network/ucx/ucx_library.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {

inline constexpr const char* ucx_advice =
    "UCX_LOG_LEVEL=info shows what UCX found; UCX_TLS and UCX_NET_DEVICES say what it may use";

class UcxPeers final : public Peers {
 public:
  /// Collective over the ranks of `rendezvous`: exchanges addresses, and hears from every rank.
  /// @throws Error (system) with UCX's own words on all ranks where it does not start on one, (mismatch) where versions
  /// of UCX differ, (timeout) with the ranks that were not heard, (peer_lost) with one that has ended
  UcxPeers(Rendezvous& rendezvous, const Environment& environment, Deadline deadline);
  ~UcxPeers() override;

  std::string name() const override { return "UCX"; }
  bool looks_are_cheap() const override { return has_rdma_; }
  void rest(std::chrono::microseconds at_most) override;

  void progress(Messages* whose) override;
  void send(std::span<const std::byte> data, std::uint64_t tag, MessageSlot& slot) override;
  void receive(std::span<std::byte> data, std::uint64_t tag, MessageSlot& slot) override;
  void cancel(const MessageSlot& slot) override;
  void settle(const Messages& canceled) noexcept override;
  void send_note(const RankGroup& group, int to, const std::shared_ptr<const std::string>& body) override;

 private:
  struct Peer {
    UcxPeers* all = nullptr;
    int rank = 0;
    std::string address{};
    ucp_ep_h endpoint = nullptr;
    bool has_failed = false;  ///< its connection, by UCX's word: nothing comes from it any more
    bool has_called = false;
    int unsent = 0;  ///< notes and acknowledgements under way to it
    Deadline again =
        Deadline::in({});  ///< not to be called before, where the connection broke while ranks met,
    std::string why{};     ///< with these words
  };
  struct NoteHead {
    std::uint32_t group;
    std::int32_t from;
  };
  struct Sent;
  static constexpr std::uint32_t hello = UINT32_MAX - 1;         ///< a group that no rank has
  static constexpr std::chrono::milliseconds to_break_off{100};  ///< who does not answer may be stopped

  const Peer& at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  static void sent(MessageSlot& slot, ucs_status_t status);
  void received(MessageSlot& slot, ucs_status_t status, std::size_t bytes);
  void acknowledge(int to, std::uint64_t tag);
  void start(const Environment& environment);
  void stop() noexcept;
  void leave_to_the_end() noexcept;
  std::string introduction(const Environment& environment);
  // ucx_connect.cpp
  void reach(const std::vector<std::string>& introductions);
  void meet(Rendezvous& rendezvous, Deadline deadline);
  bool is_met(const Peer& peer) const;
  void meet_again(Peer& peer);
  void call(int other);
  Error not_met(Deadline deadline) const;
  /// What it says if UCX ends the process in this call.
  void will_call(const char* function, int other = -1);
  std::string address() const;
  void open_endpoint(Peer& peer);
  void listen(unsigned id, ucp_am_recv_callback_t hear);
  void send_active(int to, unsigned id, std::unique_ptr<Sent> sent);
  void close_endpoints() noexcept;
  /// The rank is lost to this one, which had an error.
  void break_off(int rank_of_world, const char* why) noexcept;
  ucs_status_ptr_t begin_to_close(Peer& peer, bool by_force) noexcept;
  void finish_closing(const std::vector<ucs_status_ptr_t>& closing, Deadline deadline) noexcept;
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_acknowledgement(void* peers, const void* head, std::size_t head_bytes, void* data,
                                         std::size_t bytes, const ucp_am_recv_param_t* how);
  static ucs_status_t on_note(void* peers, const void* head, std::size_t head_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* how);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wakes_ = -1;  // a descriptor that is readable when something has come
  bool has_rdma_ = false;
  std::vector<Peer> peers_;
  std::vector<int> callers_;                   // that are to be called back
  bool has_begun_ = false;                     // UCX has begun to connect
  std::optional<AbortMessage> abort_message_;  // while it connects
  const char* function_ = nullptr;             // and whom that message names
  std::vector<int> whom_;
  bool is_frozen_ =
      false;  ///< the worker makes no progress any more, or it would write to memory that is not weft's
};

}  // namespace weft::detail
