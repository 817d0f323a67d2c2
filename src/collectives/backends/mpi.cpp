#include "collectives/backends/mpi.hpp"

#include <atomic>
#include <numeric>

#include "collectives/backends/mpi_board.hpp"
#include "collectives/backends/mpi_exchange.hpp"
#include "collectives/backends/mpi_library.hpp"
#include "collectives/backends/mpi_tags.hpp"

namespace weft::detail {
namespace {

class MpiBackend final : public Backend {
 public:
  MpiBackend(std::shared_ptr<MpiPeers> peers, Choices choices, std::chrono::nanoseconds timeout)
      : peers_(std::move(peers)),
        rendezvous_(peers_->rendezvous),
        choices_(std::move(choices)),
        timeout_(timeout) {}

  std::string name() const override { return "host (MPI)"; }
  Board* board() override {
    if (!board_) board_.emplace(rendezvous_);
    return &*board_;
  }
  bool any_thread() const override { return rendezvous_->runtime()->any_thread(); }

  std::unique_ptr<Task> start(const Operation& operation, const Stream&) override {
    const Algorithm algorithm = choose(choices_, operation, rendezvous_->size());
    if (algorithm == Algorithm::mpi) return make_mpi_library_collective(rendezvous_, operation, timeout_);
    return std::make_unique<MpiExchange>(
        peers_,
        plan_exchange(operation, algorithm, rendezvous_->rank(), rendezvous_->size(), peers_->scratch),
        mpi_tags::of(operation, rendezvous_->largest_tag()), timeout_);
  }
  std::unique_ptr<Task> start(std::vector<Transfer> transfers, const Stream&) override {
    return std::make_unique<MpiExchange>(peers_, plan_exchange(transfers), mpi_tags::transfers, timeout_);
  }
  Buffer allocate(DataType dtype, std::int64_t count) override { return Buffer::on_host(dtype, count); }

  std::shared_ptr<Backend> split(const std::vector<int>&,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    return make_mpi_backend(std::dynamic_pointer_cast<MpiRendezvous>(rendezvous), choices_, timeout_);
  }

  std::string explain(const Operation& operation) const override {
    return explain_choice(choices_, operation, rendezvous_->size());
  }
  std::uint64_t network_bytes() const override { return peers_->network_bytes; }
  void show(std::uint64_t number) override { shown_ = number; }
  std::optional<std::uint64_t> shown(int rank) const override {
    return rank == rendezvous_->rank() ? std::optional(shown_.load()) : std::nullopt;
  }

  // Peers on other nodes cannot be told; the launcher ends them when this rank ends without finalizing MPI.
  void give_up(const std::string&) noexcept override { rendezvous_->runtime()->mark_broken(); }

 private:
  std::shared_ptr<MpiPeers> peers_;
  std::shared_ptr<MpiRendezvous> rendezvous_;
  Choices choices_;
  std::chrono::nanoseconds timeout_;
  std::atomic<std::uint64_t> shown_{0};
  std::optional<MpiBoard> board_;  // of a backend that a communicator stands on
};

}  // namespace

std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous, const Choices& choices,
                                          std::chrono::nanoseconds timeout) {
  std::vector<int> names(static_cast<std::size_t>(rendezvous->size()));
  std::iota(names.begin(), names.end(), 0);
  std::vector<bool> are_near(names.size());
  are_near[static_cast<std::size_t>(rendezvous->rank())] = true;
  return make_mpi_backend(std::move(rendezvous), choices, timeout, std::move(names), std::move(are_near));
}

std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous, const Choices& choices,
                                          std::chrono::nanoseconds timeout, std::vector<int> names,
                                          std::vector<bool> are_near) {
  auto peers = std::make_shared<MpiPeers>();
  peers->rendezvous = std::move(rendezvous);
  peers->names = std::move(names);
  peers->are_near = std::move(are_near);
  return std::make_shared<MpiBackend>(std::move(peers), choices, timeout);
}

}  // namespace weft::detail
