#pragma once
// Ranks that meet through MPI, on a duplicate of the communicator they were given.

#include <memory>
#include <string>
#include <vector>

#include "collectives/bootstrap/gathering.hpp"
#include "collectives/network/mpi/mpi_runtime.hpp"
#include "weft/collectives/rendezvous.hpp"

namespace weft::detail {

class MpiRendezvous final : public Rendezvous {
 public:
  /// Collective over `parent`, which is duplicated. @param split_timeout how long split() waits for the other
  /// ranks
  MpiRendezvous(std::shared_ptr<MpiRuntime> runtime, MPI_Comm parent, Deadline deadline,
                std::chrono::nanoseconds split_timeout);
  ~MpiRendezvous() override;

  int rank() const override { return mine_.rank; }
  int size() const override { return mine_.size; }
  std::vector<std::string> all_gather(const std::string& note, const std::string& purpose,
                                      Deadline deadline) override;
  std::shared_ptr<Rendezvous> split(const std::vector<int>& members) override;

  /// Lives as long as this object. Use it while holding runtime()->enter(); errors are returned, not fatal.
  MPI_Comm communicator() const { return communicator_; }
  const std::shared_ptr<MpiRuntime>& runtime() const { return runtime_; }
  int largest_tag() const { return largest_tag_; }

 private:
  struct Adopt {};
  /// Takes over `communicator`.
  MpiRendezvous(Adopt, std::shared_ptr<MpiRuntime> runtime, MPI_Comm communicator,
                std::chrono::nanoseconds split_timeout);

  struct Transfer;
  using Ptr = std::shared_ptr<Transfer>;
  void set_up();
  Ptr send(std::string bytes, int to, int tag);
  Ptr receive(int from, int tag);
  bool ended(const Ptr& transfer);
  void give_up(const std::vector<Ptr>& transfers);
  std::string lead(const Arrival& mine, Deadline deadline);
  std::string follow(const Arrival& mine, Deadline deadline);

  const std::shared_ptr<MpiRuntime> runtime_;
  const std::chrono::nanoseconds split_timeout_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  RankIdentity mine_;
  int largest_tag_ = 32767;  // what MPI promises at least
  bool failed_ = false;
};

}  // namespace weft::detail
