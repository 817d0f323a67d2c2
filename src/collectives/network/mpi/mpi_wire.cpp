#include <list>
#include <optional>

#include "collectives/network/engine/wire_tags.hpp"
#include "collectives/network/mpi/mpi_library.hpp"
#include "collectives/network/mpi/mpi_runtime.hpp"
#include "collectives/network/transports.hpp"

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
                  wire_tags::side_channel, rendezvous_->communicator(), &sending->requests.back()),
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
  MpiRuntime::check(MPI_Improbe(MPI_ANY_SOURCE, wire_tags::side_channel, rendezvous_->communicator(),
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

class MpiMessages final : public Messages {
 public:
  explicit MpiMessages(std::shared_ptr<MpiRendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}

  void send(std::size_t label, std::span<const std::byte> data, int peer, int tag, bool is_part) override {
    handles_.push_back(MPI_REQUEST_NULL);
    MpiRuntime::check(
        (is_part ? MPI_Issend : MPI_Isend)(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag,
                                           rendezvous_->communicator(), &handles_.back()),
        is_part ? "MPI_Issend" : "MPI_Isend");
    posted_.push_back({label, data.size(), true});
  }
  void receive(std::size_t label, std::span<std::byte> data, int peer, int tag, bool /*is_part*/) override {
    handles_.push_back(MPI_REQUEST_NULL);
    MpiRuntime::check(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag,
                                rendezvous_->communicator(), &handles_.back()),
                      "MPI_Irecv");
    posted_.push_back({label, data.size(), false});
  }
  std::span<const Ended> collect() override;
  void abandon(std::shared_ptr<void> memory) noexcept override {
    // MPI may still write to it, and can no longer be finalized in peace.
    rendezvous_->runtime()->mark_broken();
    MpiRuntime::keep_for_ever(std::move(memory));
  }

 private:
  struct Posted {
    std::size_t label;
    std::size_t bytes;
    bool is_sent;
  };
  Ended outcome(const Posted& posted, const MPI_Status& status, int code) const;
  void forget_ended();

  std::shared_ptr<MpiRendezvous> rendezvous_;
  std::vector<MPI_Request> handles_;  // under way
  std::vector<Posted> posted_;        // the same
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<Ended> ended_;
};

std::span<const Messages::Ended> MpiMessages::collect() {
  ended_.clear();
  if (handles_.empty()) return {};
  indices_.resize(handles_.size());
  statuses_.resize(handles_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(handles_.size()), handles_.data(), &count, indices_.data(),
                                statuses_.data());
  if (code != MPI_ERR_IN_STATUS) MpiRuntime::check(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return {};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    ended_.push_back(outcome(posted_[static_cast<std::size_t>(indices_[i])], statuses_[i], code));
  forget_ended();
  return ended_;
}

Messages::Ended MpiMessages::outcome(const Posted& posted, const MPI_Status& status, int code) const {
  if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(status.MPI_ERROR, &error_class);
    if (error_class == MPI_ERR_TRUNCATE)
      return {.label = posted.label, .bytes = posted.bytes, .was_longer = true};
    MpiRuntime::check(status.MPI_ERROR, "MPI_Testsome");
  }
  if (posted.is_sent) return {.label = posted.label, .bytes = posted.bytes};
  int received = 0;
  MPI_Get_count(&status, MPI_BYTE, &received);
  return {.label = posted.label, .bytes = static_cast<std::size_t>(received)};
}

void MpiMessages::forget_ended() {
  for (std::size_t i = handles_.size(); i-- > 0;) {
    if (handles_[i] != MPI_REQUEST_NULL) continue;
    handles_[i] = handles_.back();
    posted_[i] = posted_.back();
    handles_.pop_back();
    posted_.pop_back();
  }
}

class MpiWire final : public Wire {
 public:
  explicit MpiWire(std::shared_ptr<MpiRendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}

  std::string name() const override { return "MPI"; }
  int rank() const override { return rendezvous_->rank(); }
  int size() const override { return rendezvous_->size(); }
  int largest_tag() const override { return rendezvous_->largest_tag(); }
  bool any_thread() const override { return rendezvous_->runtime()->any_thread(); }
  std::unique_lock<std::mutex> enter() override { return rendezvous_->runtime()->enter(); }
  std::unique_ptr<Messages> messages() override { return std::make_unique<MpiMessages>(rendezvous_); }
  SideChannel& side_channel() override {
    if (!side_channel_) side_channel_.emplace(rendezvous_);
    return *side_channel_;
  }
  std::unique_ptr<Task> own_collective(const Operation& operation,
                                       std::chrono::nanoseconds timeout) override {
    return make_mpi_library_collective(rendezvous_, operation, timeout);
  }
  std::shared_ptr<Wire> split(const std::vector<int>&,
                              const std::shared_ptr<Rendezvous>& rendezvous) override {
    return std::make_shared<MpiWire>(std::dynamic_pointer_cast<MpiRendezvous>(rendezvous));
  }
  // Peers cannot be told; the launcher ends them when this rank ends without finalizing MPI.
  void give_up() noexcept override { rendezvous_->runtime()->mark_broken(); }

 private:
  std::shared_ptr<MpiRendezvous> rendezvous_;
  std::optional<MpiSideChannel> side_channel_;  // of a wire that a communicator stands on
};

}  // namespace

std::shared_ptr<Wire> make_mpi_wire(const std::shared_ptr<Rendezvous>& rendezvous,
                                    const Environment& /*environment*/, Deadline /*deadline*/,
                                    std::chrono::nanoseconds /*timeout*/) {
  return std::make_shared<MpiWire>(std::dynamic_pointer_cast<MpiRendezvous>(rendezvous));
}

}  // namespace weft::detail
