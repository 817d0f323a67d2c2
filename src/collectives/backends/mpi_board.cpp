#include "collectives/backends/mpi_board.hpp"

#include "collectives/backends/mpi_tags.hpp"

namespace weft::detail {

MpiBoard::~MpiBoard() {
  try {
    collect();  // what nobody needs any more is still MPI's to deliver
    const auto entered = rendezvous_->runtime()->enter();
    drop_sent();
  } catch (...) {  // NOLINT(bugprone-empty-catch): MPI has ended, or another thread has it
  }
  if (sending_.empty()) return;
  // Of ranks that have never looked. MPI cannot be finalized in peace then.
  rendezvous_->runtime()->mark_broken();
  MpiRuntime::keep_for_ever(std::make_shared<std::list<std::shared_ptr<Sending>>>(std::move(sending_)));
}

void MpiBoard::drop_sent() {
  std::erase_if(sending_, [](const auto& one) {
    int ended = 0;
    MpiRuntime::check(MPI_Testall(static_cast<int>(one->requests.size()), one->requests.data(), &ended,
                                  MPI_STATUSES_IGNORE),
                      "MPI_Testall");
    return ended != 0;
  });
}

void MpiBoard::post(const std::string& word) {
  const auto entered = rendezvous_->runtime()->enter();
  drop_sent();
  auto sending = std::make_shared<Sending>(Sending{word, {}});
  for (int rank = 0; rank < rendezvous_->size(); ++rank) {
    if (rank == rendezvous_->rank()) continue;
    sending->requests.emplace_back();
    MpiRuntime::check(MPI_Isend(sending->word.data(), static_cast<int>(sending->word.size()), MPI_BYTE, rank,
                                mpi_tags::board, rendezvous_->communicator(), &sending->requests.back()),
                      "MPI_Isend");
  }
  sending_.push_back(std::move(sending));
}

std::vector<Board::Word> MpiBoard::collect() {
  const auto entered = rendezvous_->runtime()->enter();
  const MPI_Comm comm = rendezvous_->communicator();
  std::vector<Word> words;
  for (;;) {
    int is_there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status{};
    MpiRuntime::check(MPI_Improbe(MPI_ANY_SOURCE, mpi_tags::board, comm, &is_there, &message, &status),
                      "MPI_Improbe");
    if (is_there == 0) return words;
    int length = 0;
    MpiRuntime::check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
    words.push_back({status.MPI_SOURCE, std::string(static_cast<std::size_t>(length), ' ')});
    MpiRuntime::check(MPI_Mrecv(words.back().word.data(), length, MPI_BYTE, &message, MPI_STATUS_IGNORE),
                      "MPI_Mrecv");
  }
}

}  // namespace weft::detail
