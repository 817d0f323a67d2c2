// Messages between ranks of a node. A sender whose memory the receiver can reach posts one parcel with its
// address, and is done when the receiver has taken it; any other sends parcels through the channel's two
// slots, copying while the receiver takes the one before. Transfers of one channel and direction go one after
// the other, in the order of their calls.

#include <algorithm>
#include <cstring>

#include "collectives/shm/pending_op.hpp"
#include "collectives/shm/shm_layout.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

class ShmTransfers final : public PendingOp {
 public:
  ShmTransfers(ShmSegment& segment, Transfers transfers)
      : segment_(segment),
        poll_deadline_(segment_.timeout_or(transfers.timeout)),
        progress_(std::move(transfers.progress)) {
    for (Transfer& transfer : transfers.all) pending_.push_back({transfer, 0, 0, false, false});
  }

 private:
  bool advance() override {
    RecycledVector<bool> busy(static_cast<std::size_t>(2 * segment_.size()));
    for (Pending& one : pending_) {
      const auto direction = static_cast<std::size_t>(2 * one.transfer.peer + (one.transfer.sends ? 1 : 0));
      if (one.done || busy[direction]) continue;
      one.done = move(one);
      if (one.done && progress_) progress_->done(static_cast<std::size_t>(&one - pending_.data()));
      // A message whose parcels are all posted makes room for the next, even before they are taken.
      busy[direction] = !(one.done || one.posted_all);
    }
    if (std::ranges::all_of(pending_, &Pending::done)) return true;
    if (poll_deadline_.time_to_look()) look_for_missing();
    return false;
  }

  struct Pending {
    Transfer transfer;
    std::size_t moved;          // bytes posted or received
    std::uint64_t last_parcel;  // number that `taken` must reach
    bool posted_all;
    bool done;
  };

  bool send(Pending& one) const;
  bool receive(Pending& one) const;
  void rested() override { poll_deadline_.rested(); }
  void check(const Pending& one, const Parcel& parcel) const;
  bool move(Pending& one) const { return one.transfer.sends ? send(one) : receive(one); }
  void look_for_missing();

  ShmSegment& segment_;
  PollDeadline poll_deadline_;
  std::shared_ptr<GroupProgress> progress_;
  RecycledVector<Pending> pending_;
};

bool ShmTransfers::send(Pending& one) const {
  const ConstView& data = one.transfer.out;
  Channel& channel = segment_.channel(segment_.rank(), one.transfer.peer);
  const std::uint64_t taken = channel.taken.load(std::memory_order_acquire);
  std::uint64_t posted = channel.posted.load(std::memory_order_relaxed);
  while (!one.posted_all && posted - taken < Channel::slots) {
    const std::uint64_t slot = posted % Channel::slots;
    Parcel& parcel = channel.parcels[slot];
    const Address address = segment_.publish(data.data(), data.size_bytes());
    const std::size_t left = data.size_bytes() - one.moved;
    parcel = {data.count(), data.dtype(), address,
              address.reachable ? left : std::min(left, Channel::slot_bytes)};
    if (!address.reachable && parcel.bytes > 0)
      std::memcpy(channel.data[slot], data.bytes() + one.moved, parcel.bytes);
    one.moved += parcel.bytes;
    one.last_parcel = ++posted;
    one.posted_all = one.moved == data.size_bytes();
    channel.posted.store(posted, std::memory_order_release);
    segment_.ring();
  }
  // Taken, not only posted: the caller may free the memory, and an error of the receiver must reach the
  // sender.
  return one.posted_all && taken >= one.last_parcel;
}

bool ShmTransfers::receive(Pending& one) const {
  View& data = one.transfer.in;
  Channel& channel = segment_.channel(one.transfer.peer, segment_.rank());
  std::uint64_t taken = channel.taken.load(std::memory_order_relaxed);
  while (channel.posted.load(std::memory_order_acquire) > taken) {
    const std::uint64_t slot = taken % Channel::slots;
    const Parcel& parcel = channel.parcels[slot];
    check(one, parcel);
    const std::byte* source = parcel.address.reachable
                                  ? segment_.resolve(one.transfer.peer, parcel.address, parcel.bytes)
                                  : channel.data[slot];
    if (parcel.bytes > 0) std::memcpy(data.bytes() + one.moved, source, parcel.bytes);
    // It is not through before this parcel is taken.
    if (parcel.address.reachable)
      segment_.expect_memory_of({one.transfer.peer, one.transfer.peer + 1}, ShmSegment::never);
    one.moved += parcel.bytes;
    channel.taken.store(++taken, std::memory_order_release);
    segment_.ring();
    if (one.moved == data.size_bytes()) return true;
  }
  return false;
}

void ShmTransfers::check(const Pending& one, const Parcel& parcel) const {
  const Transfer& transfer = one.transfer;
  const std::size_t left = transfer.in.size_bytes() - one.moved;
  const bool fits = parcel.bytes <= (parcel.address.reachable ? left : std::min(left, Channel::slot_bytes));
  const bool agrees = parcel.message_count == transfer.count() && parcel.dtype == transfer.dtype();
  if (agrees && fits) return;
  if (agrees) {
    throw Error(ErrorKind::mismatch,
                text("rank ", transfer.peer, " sent a parcel of ", parcel.bytes, " bytes where ", left,
                     " are left to receive"),
                "its memory is overwritten, or it is no rank of this job");
  }
  throw Error(ErrorKind::mismatch,
              text("rank ", transfer.peer, " sent ", parcel.message_count, " ", parcel.dtype, " where rank ",
                   segment_.rank(), " receives ", transfer.count(), " ", transfer.dtype()),
              "sends and receives between two ranks match in the order of their calls");
}

void ShmTransfers::look_for_missing() {
  for (Pending& one : pending_) {
    if (one.done) continue;
    if (const auto loss = segment_.lost(one.transfer.peer)) {
      // The peer may have done its part and left since the last try.
      one.done = move(one);
      if (!one.done) throw Error(*loss);
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
