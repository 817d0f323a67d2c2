// Messages between ranks of a node. A sender whose memory the receiver can reach posts one parcel with its
// address, and is done when the receiver has taken it; any other sends parcels through the channel's two
// slots, copying while the receiver takes the one before. A message goes to the receive that waits for its source and tag
// (shm_messages.hpp); those of one source and tag follow each other in the order of their calls.

#include <algorithm>
#include <cstring>

#include "collectives/shm/pending_op.hpp"
#include "collectives/shm/shm_layout.hpp"
#include "collectives/shm/shm_messages.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

class ShmTransfers final : public PendingOp {
 public:
  ShmTransfers(ShmSegment& segment, Transfers transfers)
      : segment_(segment),
        messages_(segment.messages()),
        poll_deadline_(segment_.timeout_or(transfers.timeout)),
        progress_(std::move(transfers.progress)) {
    pending_.reserve(transfers.all.size());
    for (const Transfer& transfer : transfers.all) {
      pending_.push_back({transfer});
      pending_.back().before = before(pending_.size() - 1);
    }
  }

 private:
  static constexpr std::size_t nothing = static_cast<std::size_t>(-1);

  struct Pending {
    Transfer transfer;
    std::size_t before = nothing;   // of the same group, which it may not overtake
    std::size_t moved = 0;          // bytes posted or received
    std::uint64_t last_parcel = 0;  // number that `taken` must reach
    int source = any_source;        // of the message that it has begun to receive
    bool posted_all = false;
    bool done = false;
  };
  using Inbox = ShmMessages::Inbox;

  bool advance() override;
  void rested() override { poll_deadline_.rested(); }
  std::size_t before(std::size_t index) const;
  bool is_held_up(const Pending& one) const;
  void expect_messages();
  bool move(Pending& one) { return one.transfer.sends ? send(one) : receive(one); }
  void finish(Pending& one);
  bool send(Pending& one);
  bool receive(Pending& one);
  bool receive_from(int source, Pending& one);
  bool take_what_was_set_aside(Inbox& inbox, int source, Pending& one);
  void set_aside(Inbox& inbox, int source, const Parcel& parcel) const;
  const std::byte* data_of(int source, const Channel& channel, std::uint64_t slot) const;
  void check(const Pending& one, int source, const Parcel& parcel) const;
  void check_counts(const Pending& one, int source, std::int64_t count, DataType dtype) const;
  [[noreturn]] static void refuse_parcel(int source, const Parcel& parcel, std::size_t left);
  void look_for_missing();
  std::optional<Error> loss_of(const Transfer& transfer) const;

  ShmSegment& segment_;
  ShmMessages& messages_;
  PollDeadline poll_deadline_;
  std::shared_ptr<GroupProgress> progress_;
  RecycledVector<Pending> pending_;
  bool is_expecting_ = false;
};

// A send waits for the one before it to the same rank, a receive for the one before it that could take its message. A receive from any
// rank waits for all before it with its tag, which is_held_up() looks for.
std::size_t ShmTransfers::before(std::size_t index) const {
  const Transfer& one = pending_[index].transfer;
  for (std::size_t i = index; i-- > 0;) {
    const Transfer& earlier = pending_[i].transfer;
    if (earlier.sends != one.sends) continue;
    if (one.sends && earlier.peer == one.peer) return i;
    if (!one.sends && earlier.tag == one.tag &&
        (earlier.peer == one.peer || earlier.peer == any_source || one.peer == any_source))
      return i;
  }
  return nothing;
}

// A message whose parcels are all posted makes room for the next, even before they are taken.
bool ShmTransfers::is_held_up(const Pending& one) const {
  if (one.before == nothing) return false;
  if (const Pending& earlier = pending_[one.before]; !earlier.done && !earlier.posted_all) return true;
  if (one.transfer.peer != any_source || one.source != any_source) return false;
  return std::any_of(pending_.data(), &one, [&](const Pending& earlier) {
    return !earlier.transfer.sends && earlier.transfer.tag == one.transfer.tag && !earlier.done;
  });
}

void ShmTransfers::expect_messages() {
  is_expecting_ = true;
  for (const Pending& one : pending_) {
    if (!one.transfer.sends) messages_.expect(one.transfer.peer, one.transfer.tag);
  }
}

bool ShmTransfers::advance() {
  if (!is_expecting_) expect_messages();
  bool are_all_done = true;
  for (Pending& one : pending_) {
    if (!one.done && !is_held_up(one) && move(one)) finish(one);
    are_all_done = are_all_done && one.done;
  }
  if (are_all_done) return true;
  if (poll_deadline_.time_to_look()) look_for_missing();
  return false;
}

void ShmTransfers::finish(Pending& one) {
  one.done = true;
  if (!one.transfer.sends) messages_.forget(one.transfer.peer, one.transfer.tag);
  if (progress_) progress_->done(static_cast<std::size_t>(&one - pending_.data()), one.source);
}

bool ShmTransfers::send(Pending& one) {
  const ConstView& data = one.transfer.out;
  const void*& writer = messages_.writer(one.transfer.peer);
  Channel& channel = segment_.channel(segment_.rank(), one.transfer.peer);
  const std::uint64_t taken = channel.taken.load(std::memory_order_acquire);
  // Another's message that is posted in part does not hold up one whose parcels are all posted: that ends when they are taken.
  const bool may_post = writer == nullptr || writer == &one;
  std::uint64_t posted = channel.posted.load(std::memory_order_relaxed);
  while (may_post && !one.posted_all && posted - taken < Channel::slots) {
    const std::uint64_t slot = posted % Channel::slots;
    Parcel& parcel = channel.parcels[slot];
    const Address address = segment_.publish(data.data(), data.size_bytes());
    const std::size_t left = data.size_bytes() - one.moved;
    parcel = {data.count(), data.dtype(), one.transfer.tag, address,
              address.reachable ? left : std::min(left, Channel::slot_bytes)};
    if (!address.reachable && parcel.bytes > 0)
      std::memcpy(channel.data[slot], data.bytes() + one.moved, parcel.bytes);
    one.moved += parcel.bytes;
    one.last_parcel = ++posted;
    one.posted_all = one.moved == data.size_bytes();
    writer = one.posted_all ? nullptr : &one;
    channel.posted.store(posted, std::memory_order_release);
    segment_.ring();
  }
  // Taken, not only posted: the caller may free the memory, and an error of the receiver must reach the
  // sender.
  return one.posted_all && taken >= one.last_parcel;
}

bool ShmTransfers::receive(Pending& one) {
  if (one.transfer.peer != any_source) return receive_from(one.transfer.peer, one);
  if (one.source != any_source) return receive_from(one.source, one);
  for (int source = 0; source < segment_.size(); ++source) {
    if (receive_from(source, one)) return true;
    if (one.source != any_source) return false;
  }
  return false;
}

bool ShmTransfers::receive_from(int source, Pending& one) {
  View& data = one.transfer.in;
  Inbox& inbox = messages_.inbox(source);
  if (!inbox.aside.empty() && take_what_was_set_aside(inbox, source, one)) return true;
  Channel& channel = segment_.channel(source, segment_.rank());
  std::uint64_t taken = channel.taken.load(std::memory_order_relaxed);
  while (channel.posted.load(std::memory_order_acquire) > taken) {
    const std::uint64_t slot = taken % Channel::slots;
    const Parcel& parcel = channel.parcels[slot];
    const bool is_head = inbox.reader == nullptr && !inbox.is_setting_aside;
    if (is_head && parcel.tag == one.transfer.tag) {
      inbox.reader = &one;
      one.source = source;
    } else if (is_head && messages_.is_expected(source, parcel.tag)) {
      return false;  // another receive's
    }
    if (inbox.reader == nullptr) {
      set_aside(inbox, source, parcel);
    } else if (inbox.reader != &one) {
      return false;
    } else {
      check(one, source, parcel);
      if (parcel.bytes > 0)
        std::memcpy(data.bytes() + one.moved, data_of(source, channel, slot), parcel.bytes);
      one.moved += parcel.bytes;
      if (one.moved == data.size_bytes()) inbox.reader = nullptr;
    }
    // It is not through before this parcel is taken.
    if (parcel.address.reachable) segment_.expect_memory_of({source, source + 1}, ShmSegment::never);
    channel.taken.store(++taken, std::memory_order_release);
    segment_.ring();
    if (one.source == source && inbox.reader == nullptr) return true;
    if (!inbox.aside.empty() && take_what_was_set_aside(inbox, source, one)) return true;
  }
  return false;
}

// One whose end has not come is the newest, and is left to arrive.
bool ShmTransfers::take_what_was_set_aside(Inbox& inbox, int source, Pending& one) {
  if (inbox.reader == &one) return false;
  const auto found = std::ranges::find(inbox.aside, one.transfer.tag, &SetAside::tag);
  if (found == inbox.aside.end() || (inbox.is_setting_aside && &*found == &inbox.aside.back())) return false;
  check_counts(one, source, found->count, found->dtype);
  if (found->arrived > 0) std::memcpy(one.transfer.in.bytes(), found->data.view().data(), found->arrived);
  one.source = source;
  inbox.aside.erase(found);
  return true;
}

void ShmTransfers::set_aside(Inbox& inbox, int source, const Parcel& parcel) const {
  const Channel& channel = segment_.channel(source, segment_.rank());
  const bool is_sound = parcel.message_count >= 0 && parcel.dtype <= last_data_type;
  const std::size_t whole =
      is_sound ? static_cast<std::size_t>(parcel.message_count) * size_of(parcel.dtype) : 0;
  if (!inbox.is_setting_aside) {
    if (!is_sound || parcel.bytes > whole) refuse_parcel(source, parcel, whole);
    inbox.aside.push_back({parcel.tag, parcel.message_count, parcel.dtype,
                           Buffer::on_host(DataType::u8, static_cast<std::int64_t>(whole))});
  }
  SetAside& newest = inbox.aside.back();
  const std::size_t left = newest.data.size_bytes() - newest.arrived;
  const std::size_t most = parcel.address.reachable ? left : std::min(left, Channel::slot_bytes);
  if (parcel.bytes > most) refuse_parcel(source, parcel, left);
  const std::uint64_t slot = channel.taken.load(std::memory_order_relaxed) % Channel::slots;
  if (parcel.bytes > 0)
    std::memcpy(newest.data.view().bytes() + newest.arrived, data_of(source, channel, slot), parcel.bytes);
  newest.arrived += parcel.bytes;
  inbox.is_setting_aside = newest.arrived < newest.data.size_bytes();
}

const std::byte* ShmTransfers::data_of(int source, const Channel& channel, std::uint64_t slot) const {
  const Parcel& parcel = channel.parcels[slot];
  if (!parcel.address.reachable) return channel.data[slot];
  return segment_.resolve(source, parcel.address, parcel.bytes);
}

void ShmTransfers::check(const Pending& one, int source, const Parcel& parcel) const {
  check_counts(one, source, parcel.message_count, parcel.dtype);
  const std::size_t left = one.transfer.in.size_bytes() - one.moved;
  if (parcel.bytes > (parcel.address.reachable ? left : std::min(left, Channel::slot_bytes)))
    refuse_parcel(source, parcel, left);
}

void ShmTransfers::refuse_parcel(int source, const Parcel& parcel, std::size_t left) {
  throw Error(ErrorKind::mismatch,
              text("rank ", source, " sent a parcel of ", parcel.bytes, " bytes where ", left,
                   " are left to receive"),
              "its memory is overwritten, or it is no rank of this job");
}

void ShmTransfers::check_counts(const Pending& one, int source, std::int64_t count, DataType dtype) const {
  const Transfer& transfer = one.transfer;
  if (count == transfer.count() && dtype == transfer.dtype()) return;
  throw Error(ErrorKind::mismatch,
              text("rank ", source, " sent ", count, " ", dtype, transfer.with_tag(), " where rank ",
                   segment_.rank(), " receives ", transfer.count(), " ", transfer.dtype()),
              "sends and receives of one tag between two ranks match in the order of their calls");
}

/// Who can no longer do its part. Any rank may send to a receive from any: it waits in vain where one has failed, or all have left.
std::optional<Error> ShmTransfers::loss_of(const Transfer& transfer) const {
  if (transfer.peer != any_source) return segment_.lost(transfer.peer);
  std::optional<Error> last;
  bool have_all_left = true;
  for (int rank = 0; rank < segment_.size(); ++rank) {
    if (rank == segment_.rank()) continue;
    auto loss = segment_.lost(rank);
    const bool has_left = segment_.block(rank).presence.load(std::memory_order_acquire) == Presence::left;
    if (loss && !has_left) return loss;
    have_all_left = have_all_left && has_left;
    last = std::move(loss);
  }
  return have_all_left ? last : std::nullopt;
}

void ShmTransfers::look_for_missing() {
  for (Pending& one : pending_) {
    if (one.done) continue;
    if (const auto loss = loss_of(one.transfer)) {
      // The peer may have done its part and left since the last try.
      if (is_held_up(one) || !move(one)) throw Error(*loss);
      finish(one);
      continue;
    }
    if (poll_deadline_.exhausted()) {
      throw Error(ErrorKind::timeout,
                  text("waited ", poll_deadline_.waited_seconds(), " s for ", one.transfer.awaited()),
                  "every send needs a receive on the other rank");
    }
  }
}

}  // namespace

std::unique_ptr<PendingOp> make_shm_transfers(ShmSegment& segment, Transfers transfers) {
  return std::make_unique<ShmTransfers>(segment, std::move(transfers));
}

}  // namespace weft::detail
