#pragma once
// Carries out an ExchangePlan over MPI: every flow in segments, several of which are in flight.

#include <atomic>
#include <deque>
#include <memory>

#include "collectives/algorithms/exchange.hpp"
#include "collectives/mpi_rendezvous.hpp"
#include "collectives/patience.hpp"

namespace weft::detail {

/// The ranks of an MPI communicator as one of them sees them, and what it has sent.
struct MpiPeers {
  std::shared_ptr<MpiRendezvous> rendezvous;
  std::vector<int> names;      ///< what messages call them
  std::vector<bool> are_near;  ///< whether they are on this rank's node
  std::atomic<std::uint64_t> network_bytes = 0;
  ScratchPool scratch;
};

class MpiExchange final : public Task {
 public:
  /// @param tag of the first stage; the others follow
  MpiExchange(std::shared_ptr<MpiPeers> peers, ExchangePlan plan, int tag, std::chrono::nanoseconds timeout);
  ~MpiExchange() override;
  bool advance() override;

 private:
  /// How far a flow is, in bytes from its beginning.
  struct Progress {
    std::size_t ready = 0;  ///< may be begun
    std::size_t begun = 0;
    std::size_t done = 0;
    std::deque<bool> ended{};             ///< the segments from `done` on
    bool is_begun = false;                ///< an empty message has no bytes to tell
    std::optional<std::size_t> before{};  ///< the flow before it between the same two ranks
  };
  struct Request {
    std::size_t flow;
    std::size_t begin;
    std::size_t bytes;
  };

  void begin();
  /// Begins what may be begun. True: something was.
  bool post();
  void post_segment(std::size_t index);
  /// Takes note of what has ended. True: something has.
  bool collect();
  void end(const Request& request);
  bool reduce_arrived();
  std::size_t ready(std::size_t index) const;
  bool complete() const;
  int name_of(int rank) const { return peers_->names[static_cast<std::size_t>(rank)]; }
  void check(const MPI_Status& status, int code, const Request& request) const;
  [[noreturn]] void disagree(const Flow& flow, const std::string& sent, std::size_t expected) const;
  [[noreturn]] void time_out() const;

  std::shared_ptr<MpiPeers> peers_;
  std::shared_ptr<MpiRendezvous> rendezvous_;
  ExchangePlan plan_;
  int tag_;
  std::chrono::nanoseconds timeout_;
  Patience patience_;
  bool begun_ = false;
  std::vector<Progress> progress_;    // by flow
  std::vector<std::size_t> reduced_;  // bytes, by reduction
  std::vector<MPI_Request> handles_;  // in flight
  std::vector<Request> requests_;     // the same
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace weft::detail
