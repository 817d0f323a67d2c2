// MPI as a transport. A tag of MPI has no room for a group's number (MPI_TAG_UB): each group has the communicator on which its ranks met.

#include <algorithm>
#include <list>
#include <numeric>

#include "collectives/network/engine/wire_tags.hpp"
#include "collectives/network/mpi/mpi_library.hpp"
#include "collectives/network/mpi/mpi_runtime.hpp"
#include "collectives/network/transports.hpp"
#include "weft/core/backoff.hpp"

namespace weft::detail {
namespace {

/// A group's communicator, and the notes on it that are under way: short messages on a tag of their own. Used while MPI is entered.
class MpiGroup {
 public:
  explicit MpiGroup(std::shared_ptr<MpiRendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  static MpiGroup& of(const RankGroup& group) { return *static_cast<MpiGroup*>(group.own.get()); }
  const std::shared_ptr<MpiRendezvous>& rendezvous() const { return rendezvous_; }
  MPI_Comm communicator() const { return rendezvous_->communicator(); }
  void send(int to, const std::shared_ptr<const std::string>& body);
  std::deque<SideChannel::Message> take();

 private:
  struct Sending {
    std::shared_ptr<const std::string> body;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Receiving {
    SideChannel::Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  static bool has_ended(MPI_Request& request) {
    int ended = 0;
    MpiRuntime::check(MPI_Test(&request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
    return ended != 0;
  }
  bool begin_receiving();

  std::shared_ptr<MpiRendezvous> rendezvous_;
  std::list<Sending> sending_;
  std::list<Receiving> receiving_;
};

MpiGroup::~MpiGroup() {
  try {
    if (MpiRuntime::initialised()) {
      const auto entered = rendezvous_->runtime()->enter();
      take();  // messages that no rank needs any more are still MPI's to deliver
    }
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): this is a child of MPI's process, or another thread has MPI
  }
  if (sending_.empty() && receiving_.empty()) return;
  // To ranks that have never looked, or from ranks that stopped while they sent. MPI cannot be finalized in peace then.
  rendezvous_->runtime()->mark_broken();
  MpiRuntime::keep_for_ever(std::make_shared<decltype(sending_)>(std::move(sending_)));
  MpiRuntime::keep_for_ever(std::make_shared<decltype(receiving_)>(std::move(receiving_)));
}

void MpiGroup::send(int to, const std::shared_ptr<const std::string>& body) {
  Sending& sending = sending_.emplace_back(body);
  MpiRuntime::check(MPI_Isend(body->data(), static_cast<int>(body->size()), MPI_BYTE, to,
                              wire_tags::side_channel, communicator(), &sending.request),
                    "MPI_Isend");
}

std::deque<SideChannel::Message> MpiGroup::take() {
  while (begin_receiving()) {
  }
  std::deque<SideChannel::Message> messages;
  std::erase_if(receiving_, [&](Receiving& one) {
    if (!has_ended(one.request)) return false;
    messages.push_back(std::move(one.message));
    return true;
  });
  std::erase_if(sending_, [](Sending& one) { return has_ended(one.request); });
  return messages;
}

/// A message that is announced need not be here whole: its sender may be stopped. @return whether there was one
bool MpiGroup::begin_receiving() {
  int is_there = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status{};
  MpiRuntime::check(
      MPI_Improbe(MPI_ANY_SOURCE, wire_tags::side_channel, communicator(), &is_there, &handle, &status),
      "MPI_Improbe");
  if (is_there == 0) return false;
  int length = 0;
  MpiRuntime::check(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
  Receiving& one = receiving_.emplace_back(
      SideChannel::Message{status.MPI_SOURCE, std::string(static_cast<std::size_t>(length), ' ')});
  MpiRuntime::check(MPI_Imrecv(one.message.body.data(), length, MPI_BYTE, &handle, &one.request),
                    "MPI_Imrecv");
  return true;
}

/// Those of an exchange that are under way: MPI_Testsome asks for its own alone.
struct Requests {
  explicit Requests(MPI_Comm of) : communicator(of) {}

  static Requests& of(Messages& all) {
    if (!all.own) all.own = make_recycled<Requests>(MpiGroup::of(all.group).communicator());
    return *static_cast<Requests*>(all.own.get());
  }
  MPI_Request* add(MessageSlot& slot) {
    slots.push_back(&slot);
    return &handles.emplace_back(MPI_REQUEST_NULL);
  }
  void forget_ended();

  MPI_Comm communicator;
  RecycledVector<MPI_Request> handles;
  RecycledVector<MessageSlot*> slots;  // the same
};

void Requests::forget_ended() {
  for (std::size_t i = handles.size(); i-- > 0;) {
    if (handles[i] != MPI_REQUEST_NULL) continue;
    handles[i] = handles.back();
    slots[i] = slots.back();
    handles.pop_back();
    slots.pop_back();
  }
}

Messages::Ended outcome(const MessageSlot& slot, const MPI_Status& status, int code) {
  if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(status.MPI_ERROR, &error_class);
    if (error_class == MPI_ERR_TRUNCATE)
      return {.label = slot.label, .bytes = slot.bytes, .was_longer = true};
    MpiRuntime::check(status.MPI_ERROR, "MPI_Testsome");
  }
  if (slot.is_read) return {.label = slot.label, .bytes = slot.bytes};
  int received = 0;
  MPI_Get_count(&status, MPI_BYTE, &received);
  return {.label = slot.label, .bytes = static_cast<std::size_t>(received)};
}

/// MPI knows of no rank that is lost: its launcher ends the others.
class MpiPeers final : public Peers {
 public:
  explicit MpiPeers(const MpiRendezvous& world)
      : Peers(world.rank(), world.size(), &world.runtime()->mutex()), runtime_(world.runtime()) {}

  std::string name() const override { return "MPI"; }
  bool any_thread() const override { return runtime_->any_thread(); }
  bool looks_are_cheap() const override { return true; }  // Open MPI yields where ranks share cores
  void rest(std::chrono::microseconds at_most) override { Backoff::sleep(at_most); }
  // Peers cannot be told; the launcher ends them when this rank ends without finalizing MPI.
  void give_up() noexcept override { runtime_->mark_broken(); }

  /// A communicator numbers its ranks by itself, as the group does.
  void begin_group(RankGroup& group, const std::shared_ptr<Rendezvous>& rendezvous,
                   Deadline /*deadline*/) override {
    const auto met = std::dynamic_pointer_cast<MpiRendezvous>(rendezvous);
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    group.largest_tag = std::min(group.largest_tag, met->largest_tag());
    group.own = std::make_shared<MpiGroup>(met);
  }
  std::unique_ptr<Task> own_collective(const RankGroup& group, const Operation& operation,
                                       std::chrono::nanoseconds timeout) override {
    return make_mpi_library_collective(MpiGroup::of(group).rendezvous(), operation, timeout);
  }

  void progress(Messages* whose) override;
  void send(std::span<const std::byte> data, std::uint64_t tag, MessageSlot& slot) override {
    Requests& all = Requests::of(*slot.all);
    slot.is_read = true;
    MpiRuntime::check((slot.is_part ? MPI_Issend : MPI_Isend)(data.data(), static_cast<int>(data.size()),
                                                              MPI_BYTE, slot.peer, tag_of_exchange(tag),
                                                              all.communicator, all.add(slot)),
                      slot.is_part ? "MPI_Issend" : "MPI_Isend");
  }
  void receive(std::span<std::byte> data, std::uint64_t tag, MessageSlot& slot) override {
    Requests& all = Requests::of(*slot.all);
    MpiRuntime::check(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, slot.peer,
                                tag_of_exchange(tag), all.communicator, all.add(slot)),
                      "MPI_Irecv");
  }
  // MPI may still write to it, and can no longer be finalized in peace.
  void cancel(const MessageSlot& /*slot*/) override { runtime_->mark_broken(); }
  void keep(std::shared_ptr<void> memory) override { MpiRuntime::keep_for_ever(std::move(memory)); }
  void send_note(const RankGroup& group, int to, const std::shared_ptr<const std::string>& body) override {
    runtime_->expect_caller();
    MpiGroup::of(group).send(to, body);
  }
  std::deque<SideChannel::Message> take_notes(const RankGroup& group) override {
    runtime_->expect_caller();
    return MpiGroup::of(group).take();
  }

 private:
  const std::shared_ptr<MpiRuntime> runtime_;
  std::vector<int> indices_;  // of those that have ended
  std::vector<MPI_Status> statuses_;
};

void MpiPeers::progress(Messages* whose) {
  runtime_->expect_caller();
  if (whose == nullptr || !whose->own) return;
  Requests& all = Requests::of(*whose);
  if (all.handles.empty()) return;
  if (indices_.size() < all.handles.size()) {
    indices_.resize(all.handles.size());
    statuses_.resize(all.handles.size());
  }
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(all.handles.size()), all.handles.data(), &count,
                                indices_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) MpiRuntime::check(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    MessageSlot& slot = *all.slots[static_cast<std::size_t>(indices_[i])];
    whose->end(slot, outcome(slot, statuses_[i], code));
  }
  all.forget_ended();
}

}  // namespace

std::shared_ptr<Peers> make_mpi_peers(Rendezvous& rendezvous, const Environment& /*environment*/,
                                      Deadline /*deadline*/) {
  return std::make_shared<MpiPeers>(dynamic_cast<MpiRendezvous&>(rendezvous));
}

}  // namespace weft::detail
