#include "collectives/algorithms/exchange.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/algorithms/reduce_kernel.hpp"

namespace weft::detail {
namespace {

/// Builds the plan of one rank. Names: n is the operation's count, `other` a peer.
class Planner {
 public:
  Planner(const Operation& operation, int rank, int size) : op_(operation), rank_(rank), size_(size) {}

  ExchangePlan plan() {
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
    }
    return std::move(plan_);
  }

 private:
  struct Slice {
    std::int64_t begin;
    std::int64_t count;
  };

  std::size_t bytes(std::int64_t count) const { return static_cast<std::size_t>(count) * size_of(op_.dtype); }
  const std::byte* in(std::int64_t element) const { return op_.in.bytes() + bytes(element); }
  std::byte* out(std::int64_t element) const { return op_.out.bytes() + bytes(element); }

  Slice slice(int rank) const {
    const std::int64_t length = (op_.count + size_ - 1) / size_;
    const std::int64_t begin = std::min(op_.count, length * rank);
    return {begin, std::min(length, op_.count - begin)};
  }

  template <class Each>
  void for_others(Each each) const {
    // Starting behind the own rank spreads the load: no rank is everybody's first receiver.
    for (int step = 1; step < size_; ++step) each((rank_ + step) % size_);
  }

  static void send(Phase& phase, int to, const std::byte* data, std::size_t size) {
    phase.messages.push_back({to, true, data, nullptr, size});
  }
  static void receive(Phase& phase, int from, std::byte* data, std::size_t size) {
    phase.messages.push_back({from, false, nullptr, data, size});
  }

  /// Everybody sends `part_of(other)` of its input to its owner, who reduces its own part of all inputs into
  /// `result`.
  template <class PartOf>
  void reduce_parts(PartOf part_of, std::byte* result) {
    const Slice mine = part_of(rank_);
    std::byte* arrivals = scratch(mine.count * size_);
    Phase phase;
    for_others(
        [&](int other) { receive(phase, other, arrivals + bytes(mine.count * other), bytes(mine.count)); });
    for_others([&](int other) { send(phase, other, in(part_of(other).begin), bytes(part_of(other).count)); });
    std::vector<const std::byte*> sources;
    for (int other = 0; other < size_; ++other) {
      sources.push_back(other == rank_ ? in(mine.begin) : arrivals + bytes(mine.count * other));
    }
    phase.then = [sources = std::move(sources), result, count = mine.count, dtype = op_.dtype,
                  op = op_.op]() mutable {
      if (count > 0) reduce(sources, {std::span(&result, 1)}, count, dtype, op);
    };
    plan_.phases.push_back(std::move(phase));
  }

  void all_reduce() {
    const Slice mine = slice(rank_);
    reduce_parts([this](int other) { return slice(other); }, out(mine.begin));
    Phase spread;
    for_others([&](int other) {
      const Slice theirs = slice(other);
      receive(spread, other, out(theirs.begin), bytes(theirs.count));
    });
    for_others([&](int other) { send(spread, other, out(mine.begin), bytes(mine.count)); });
    plan_.phases.push_back(std::move(spread));
  }

  void reduce_to_root() {
    const Slice mine = slice(rank_);
    std::byte* result = rank_ == op_.root ? out(mine.begin) : scratch(mine.count);
    reduce_parts([this](int other) { return slice(other); }, result);
    Phase collect;
    if (rank_ == op_.root) {
      for_others(
          [&](int other) { receive(collect, other, out(slice(other).begin), bytes(slice(other).count)); });
    } else {
      send(collect, op_.root, result, bytes(mine.count));
    }
    plan_.phases.push_back(std::move(collect));
  }

  void reduce_scatter() {
    reduce_parts([this](int other) { return Slice{op_.count * other, op_.count}; }, out(0));
  }

  void all_gather() {
    Phase phase;
    for_others([&](int other) { receive(phase, other, out(op_.count * other), bytes(op_.count)); });
    for_others([&](int other) { send(phase, other, in(0), bytes(op_.count)); });
    phase.then = copy(in(0), out(op_.count * rank_));
    plan_.phases.push_back(std::move(phase));
  }

  void all_to_all() {
    Phase phase;
    for_others([&](int other) { receive(phase, other, out(op_.count * other), bytes(op_.count)); });
    for_others([&](int other) { send(phase, other, in(op_.count * other), bytes(op_.count)); });
    phase.then = copy(in(op_.count * rank_), out(op_.count * rank_));
    plan_.phases.push_back(std::move(phase));
  }

  void broadcast() {
    Phase phase;
    if (rank_ == op_.root) {
      for_others([&](int other) { send(phase, other, in(0), bytes(op_.count)); });
    } else {
      receive(phase, op_.root, out(0), bytes(op_.count));
    }
    plan_.phases.push_back(std::move(phase));
  }

  // Dissemination: after round k everybody has heard, directly or not, of 2^(k+1) ranks.
  void barrier() {
    for (int distance = 1; distance < size_; distance *= 2) {
      Phase phase;
      receive(phase, (rank_ + size_ - distance) % size_, nullptr, 0);
      send(phase, (rank_ + distance) % size_, nullptr, 0);
      plan_.phases.push_back(std::move(phase));
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
  return Planner(operation, rank, size).plan();
}

ExchangePlan plan_exchange(const std::vector<Transfer>& transfers) {
  Phase phase;
  for (const Transfer& transfer : transfers) {
    phase.messages.push_back({transfer.peer, transfer.sends, transfer.out.bytes(), transfer.in.bytes(),
                              static_cast<std::size_t>(transfer.count()) * size_of(transfer.dtype())});
  }
  ExchangePlan plan;
  plan.phases.push_back(std::move(phase));
  return plan;
}

}  // namespace weft::detail
