#pragma once
// The Board of ranks that MPI connects: short messages on a tag of their own.

#include <list>
#include <vector>

#include "collectives/backend.hpp"
#include "collectives/mpi_rendezvous.hpp"

namespace weft::detail {

class MpiBoard final : public Board {
 public:
  explicit MpiBoard(std::shared_ptr<MpiRendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}
  ~MpiBoard() override;

  void post(const std::string& word) override;
  std::vector<Word> collect() override;

 private:
  struct Sending {
    std::string word;
    std::vector<MPI_Request> requests;
  };

  void drop_sent();

  std::shared_ptr<MpiRendezvous> rendezvous_;
  std::list<std::shared_ptr<Sending>> sending_;  // guarded by the runtime's turn
};

}  // namespace weft::detail
