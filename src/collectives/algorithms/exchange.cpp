#include "collectives/algorithms/exchange.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/algorithms/slices.hpp"

namespace weft::detail {
namespace {

// Up to here the number of messages that follow each other counts, and not their bytes.
constexpr std::size_t small_bytes = 4 << 10;

/// Builds the plan of one rank. Names: n is the operation's count, `other` a peer.
class Planner {
 public:
  Planner(const Operation& operation, int rank, int size) : op_(operation), rank_(rank), size_(size) {}

  ExchangePlan plan() {
    plan_.dtype = op_.dtype;
    plan_.op = op_.op;
    switch (op_.kind) {
      case Collective::all_reduce:
        all_reduce();
        break;
      case Collective::reduce:
        reduce_to_root();
        break;
      case Collective::reduce_scatter:
        reduce_scatter();
        break;
      case Collective::all_gather:
        all_gather();
        break;
      case Collective::broadcast:
        broadcast();
        break;
      case Collective::all_to_all:
        all_to_all();
        break;
      case Collective::barrier:
        barrier();
        break;
      case Collective::reduce_slices:
      case Collective::gather_slices:
        break;  // of nodes only
    }
    return std::move(plan_);
  }

 private:
  std::size_t bytes(std::int64_t count) const { return static_cast<std::size_t>(count) * size_of(op_.dtype); }
  const std::byte* in(std::int64_t element) const { return op_.in.bytes() + bytes(element); }
  std::byte* out(std::int64_t element) const { return op_.out.bytes() + bytes(element); }
  Slice slice(int rank) const { return slice_of(op_.count, rank, size_, op_.dtype); }

  template <class Each>
  void for_others(Each each) const {
    // Starting behind the own rank spreads the load: no rank is everybody's first receiver.
    for (int step = 1; step < size_; ++step) each((rank_ + step) % size_);
  }

  std::size_t send(int to, int stage, const std::byte* data, std::size_t size) {
    plan_.flows.push_back({.peer = to, .sends = true, .stage = stage, .out = data, .bytes = size});
    return plan_.flows.size() - 1;
  }
  std::size_t receive(int from, int stage, std::byte* data, std::size_t size) {
    plan_.flows.push_back({.peer = from, .sends = false, .stage = stage, .in = data, .bytes = size});
    return plan_.flows.size() - 1;
  }

  /// Everybody sends `part_of(other)` of its input to its owner, who reduces its own part of all inputs into
  /// `result`. The flows that were sent, by rank.
  template <class PartOf>
  std::vector<std::size_t> reduce_parts(PartOf part_of, std::byte* result) {
    const Slice mine = part_of(rank_);
    std::byte* arrivals = scratch(mine.count * size_);
    Reduction reduction{.sources = {}, .result = result, .bytes = bytes(mine.count), .from = {}, .into = {}};
    for_others([&](int other) {
      reduction.from.push_back(receive(other, 0, arrivals + bytes(mine.count * other), bytes(mine.count)));
    });
    std::vector<std::size_t> sent(static_cast<std::size_t>(size_));
    for_others([&](int other) {
      const Slice theirs = part_of(other);
      sent[static_cast<std::size_t>(other)] = send(other, 0, in(theirs.begin), bytes(theirs.count));
    });
    for (int other = 0; other < size_; ++other)
      reduction.sources.push_back(other == rank_ ? in(mine.begin) : arrivals + bytes(mine.count * other));
    plan_.reductions.push_back(std::move(reduction));
    return sent;
  }

  /// What the last reduction makes goes to `to` as it is made.
  void send_made(int to) {
    Reduction& reduction = plan_.reductions.back();
    const std::size_t flow = send(to, 1, reduction.result, reduction.bytes);
    plan_.flows[flow].made = true;
    reduction.into.push_back(flow);
  }

  /// Everybody sends everything to everybody, who reduce for themselves: one message's time instead of two.
  void all_reduce_small() {
    const auto whole = [this](int) { return Slice{0, op_.count}; };
    const auto sent = reduce_parts(whole, out(0));
    // In place, the result must not be there before the input has left.
    for_others(
        [&](int other) { plan_.reductions.back().from.push_back(sent[static_cast<std::size_t>(other)]); });
  }

  void all_reduce() {
    if (bytes(op_.count) <= small_bytes) return all_reduce_small();
    const auto sent = reduce_parts([this](int other) { return slice(other); }, out(slice(rank_).begin));
    for_others([&](int other) {
      const Slice theirs = slice(other);
      const std::size_t flow = receive(other, 1, out(theirs.begin), bytes(theirs.count));
      // In place, a result arrives where the input leaves from.
      plan_.flows[flow].after = sent[static_cast<std::size_t>(other)];
    });
    for_others([&](int other) { send_made(other); });
  }

  void reduce_to_root() {
    const Slice mine = slice(rank_);
    const bool is_root = rank_ == op_.root;
    const auto sent = reduce_parts([this](int other) { return slice(other); },
                                   is_root ? out(mine.begin) : scratch(mine.count));
    if (!is_root) return send_made(op_.root);
    for_others([&](int other) {
      const Slice theirs = slice(other);
      const std::size_t flow = receive(other, 1, out(theirs.begin), bytes(theirs.count));
      plan_.flows[flow].after = sent[static_cast<std::size_t>(other)];
    });
  }

  void reduce_scatter() {
    reduce_parts([this](int other) { return Slice{op_.count * other, op_.count}; }, out(0));
  }

  void all_gather() {
    for_others([&](int other) { receive(other, 0, out(op_.count * other), bytes(op_.count)); });
    for_others([&](int other) { send(other, 0, in(0), bytes(op_.count)); });
    plan_.begin = copy(in(0), out(op_.count * rank_));
  }

  void all_to_all() {
    for_others([&](int other) { receive(other, 0, out(op_.count * other), bytes(op_.count)); });
    for_others([&](int other) { send(other, 0, in(op_.count * other), bytes(op_.count)); });
    plan_.begin = copy(in(op_.count * rank_), out(op_.count * rank_));
  }

  // A slice to each, who passes it on to all: the root sends everything about twice, however many ranks there
  // are.
  void broadcast() {
    if (bytes(op_.count) <= small_bytes) return broadcast_small();
    if (rank_ == op_.root) {
      for_others([&](int other) { send(other, 0, in(slice(other).begin), bytes(slice(other).count)); });
      // Its own slice goes to all, for nobody else has it.
      for_others([&](int other) { send(other, 1, in(slice(rank_).begin), bytes(slice(rank_).count)); });
      return;
    }
    const Slice mine = slice(rank_);
    const std::size_t first = receive(op_.root, 0, out(mine.begin), bytes(mine.count));
    for_others([&](int other) {
      receive(other, 1, out(slice(other).begin), bytes(slice(other).count));
      if (other == op_.root) return;
      plan_.flows[send(other, 1, out(mine.begin), bytes(mine.count))].after = first;
    });
  }

  void broadcast_small() {
    if (rank_ != op_.root) {
      receive(op_.root, 0, out(0), bytes(op_.count));
    } else {
      for_others([&](int other) { send(other, 0, in(0), bytes(op_.count)); });
    }
  }

  // Dissemination: after round k everybody has heard, directly or not, of 2^(k+1) ranks.
  void barrier() {
    std::optional<std::size_t> heard;
    plan_.scratch.push_back(Buffer::on_host(DataType::u8, 1));
    std::byte* const word = plan_.scratch.back().view().bytes();
    for (int distance = 1; distance < size_; distance *= 2) {
      plan_.flows[send((rank_ + distance) % size_, 0, word, 1)].after = heard;
      const std::size_t next = receive((rank_ + size_ - distance) % size_, 0, word, 1);
      plan_.flows[next].after = heard;  // a later round may come in first, and says nothing of this one
      heard = next;
    }
  }

  std::function<void()> copy(const std::byte* from, std::byte* to) const {
    return [from, to, size = bytes(op_.count)] {
      if (from != to && size > 0) std::memcpy(to, from, size);
    };
  }

  std::byte* scratch(std::int64_t count) {
    plan_.scratch.push_back(Buffer::on_host(op_.dtype, count));
    return plan_.scratch.back().view().bytes();
  }

  const Operation& op_;
  int rank_;
  int size_;
  ExchangePlan plan_;
};

}  // namespace

ExchangePlan plan_exchange(const Operation& operation, int rank, int size) {
  ExchangePlan plan = Planner(operation, rank, size).plan();
  std::erase_if(plan.reductions, [](const Reduction& one) { return one.bytes == 0; });
  return plan;
}

ExchangePlan plan_exchange(const std::vector<Transfer>& transfers) {
  ExchangePlan plan;
  for (const Transfer& transfer : transfers) {
    plan.flows.push_back({.peer = transfer.peer,
                          .sends = transfer.sends,
                          .stage = 0,
                          .out = transfer.out.bytes(),
                          .in = transfer.in.bytes(),
                          .bytes = static_cast<std::size_t>(transfer.count()) * size_of(transfer.dtype())});
  }
  return plan;
}

}  // namespace weft::detail
