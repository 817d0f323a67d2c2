#include "collectives/mpi/mpi_backend.hpp"

#include <atomic>
#include <list>
#include <numeric>

#include "collectives/mpi/mpi_tags.hpp"
#include "collectives/mpi/mpi_tasks.hpp"

namespace weft::detail {
namespace {

/// The SideChannel of ranks that MPI connects: short messages on a tag of their own.
class MpiSideChannel final : public SideChannel {
 public:
  explicit MpiSideChannel(std::shared_ptr<MpiRendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}
  ~MpiSideChannel() override;

  void post(const std::string& message) override;
  std::vector<Message> collect() override;

 private:
  struct Sending {
    std::string body;
    std::vector<MPI_Request> requests;
  };
  struct Receiving {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void drop_sent();
  bool begin_receiving();

  std::shared_ptr<MpiRendezvous> rendezvous_;
  // Both are guarded by the runtime's lock.
  std::list<std::shared_ptr<Sending>> sending_;
  std::list<std::shared_ptr<Receiving>> receiving_;
};

MpiSideChannel::~MpiSideChannel() {
  try {
    collect();  // messages that no rank needs any more are still MPI's to deliver
    const auto entered = rendezvous_->runtime()->enter();
    drop_sent();
  } catch (...) {  // NOLINT(bugprone-empty-catch): MPI has ended, or another thread has it
  }
  if (sending_.empty() && receiving_.empty()) return;
  // To ranks that have never looked, or from ranks that stopped while they sent. MPI cannot be finalized in peace then.
  rendezvous_->runtime()->mark_broken();
  MpiRuntime::keep_for_ever(std::make_shared<decltype(sending_)>(std::move(sending_)));
  MpiRuntime::keep_for_ever(std::make_shared<decltype(receiving_)>(std::move(receiving_)));
}

void MpiSideChannel::drop_sent() {
  std::erase_if(sending_, [](const auto& one) {
    int ended = 0;
    MpiRuntime::check(MPI_Testall(static_cast<int>(one->requests.size()), one->requests.data(), &ended,
                                  MPI_STATUSES_IGNORE),
                      "MPI_Testall");
    return ended != 0;
  });
}

void MpiSideChannel::post(const std::string& message) {
  const auto entered = rendezvous_->runtime()->enter();
  drop_sent();
  auto sending = std::make_shared<Sending>(Sending{message, {}});
  for (int rank = 0; rank < rendezvous_->size(); ++rank) {
    if (rank == rendezvous_->rank()) continue;
    sending->requests.emplace_back();
    MpiRuntime::check(
        MPI_Isend(sending->body.data(), static_cast<int>(sending->body.size()), MPI_BYTE, rank,
                  mpi_tags::side_channel, rendezvous_->communicator(), &sending->requests.back()),
        "MPI_Isend");
  }
  sending_.push_back(std::move(sending));
}

std::vector<SideChannel::Message> MpiSideChannel::collect() {
  const auto entered = rendezvous_->runtime()->enter();
  while (begin_receiving()) {
  }
  std::vector<Message> messages;
  std::erase_if(receiving_, [&](const auto& one) {
    int ended = 0;
    MpiRuntime::check(MPI_Test(&one->request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
    if (ended != 0) messages.push_back(std::move(one->message));
    return ended != 0;
  });
  return messages;
}

/// A message that is announced need not be here whole: its sender may be stopped. @return whether there was one
bool MpiSideChannel::begin_receiving() {
  int is_there = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status{};
  MpiRuntime::check(MPI_Improbe(MPI_ANY_SOURCE, mpi_tags::side_channel, rendezvous_->communicator(),
                                &is_there, &handle, &status),
                    "MPI_Improbe");
  if (is_there == 0) return false;
  int length = 0;
  MpiRuntime::check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
  const auto one = std::make_shared<Receiving>(
      Receiving{{status.MPI_SOURCE, std::string(static_cast<std::size_t>(length), ' ')}});
  receiving_.push_back(one);
  MpiRuntime::check(MPI_Imrecv(one->message.body.data(), length, MPI_BYTE, &handle, &one->request),
                    "MPI_Imrecv");
  return true;
}

class MpiBackend final : public Backend {
 public:
  MpiBackend(std::shared_ptr<MpiPeers> peers, Choices choices, std::chrono::nanoseconds timeout)
      : peers_(std::move(peers)),
        rendezvous_(peers_->rendezvous),
        choices_(std::move(choices)),
        timeout_(timeout) {}

  std::string name() const override { return "host (MPI)"; }
  SideChannel* side_channel() override {
    if (!side_channel_) side_channel_.emplace(rendezvous_);
    return &*side_channel_;
  }
  bool any_thread() const override { return rendezvous_->runtime()->any_thread(); }

  std::unique_ptr<Task> start(const Operation& operation, const Stream&) override {
    const Algorithm algorithm = choose(choices_, operation, rendezvous_->size());
    if (algorithm == Algorithm::mpi) return make_mpi_library_collective(rendezvous_, operation, timeout_);
    return make_mpi_exchange(
        peers_,
        plan_exchange(operation, algorithm, rendezvous_->rank(), rendezvous_->size(), peers_->scratch),
        mpi_tags::of(operation, rendezvous_->largest_tag()), timeout_);
  }
  std::unique_ptr<Task> start(std::vector<Transfer> transfers, const Stream&) override {
    return make_mpi_exchange(peers_, plan_exchange(transfers), mpi_tags::transfers, timeout_);
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
  std::optional<MpiSideChannel> side_channel_;  // of a backend that a communicator stands on
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
