#include "collectives/network/plan/exchange.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/kernels/slices.hpp"
#include "collectives/network/plan/tree.hpp"

namespace weft::detail {
namespace {

/// Builds the plan of one rank. `owner` is whose slice it is, and places are ranks counted from it.
class Planner {
 public:
  Planner(const Operation& operation, Algorithm algorithm, int rank, int size, ScratchPool& pool)
      : op_(operation), algorithm_(algorithm), rank_(rank), size_(size), pool_(pool) {}

  ExchangePlan plan() {
    plan_.dtype = op_.dtype;
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
      case Collective::reduce_parts:
        reduce_parts();
        break;
      case Collective::reduce_slices:
      case Collective::gather_slices:
      case Collective::gather_parts:
        break;  // of nodes only
    }
    return std::move(plan_);
  }

 private:
  /// What this rank holds of a slice: where, and what it has to wait for before it may pass it on or write
  /// over it.
  struct Held {
    const std::byte* data = nullptr;
    std::optional<std::size_t> made_by{};  ///< a reduction
    std::optional<std::size_t> sent{};     ///< the flow that took it away
  };

  std::size_t bytes(std::int64_t count) const { return static_cast<std::size_t>(count) * size_of(op_.dtype); }
  const std::byte* in(std::int64_t element) const { return op_.in.bytes() + bytes(element); }
  std::byte* out(std::int64_t element) const { return op_.out.bytes() + bytes(element); }
  Slice slice(int rank) const { return slice_of(op_.count, rank, size_, op_.dtype); }
  int place(int owner) const { return (rank_ - owner + size_) % size_; }
  int rank_at(int place, int owner) const { return (owner + place) % size_; }
  /// How a slice travels.
  Tree tree() const {
    switch (algorithm_) {
      case Algorithm::ring:
        return Tree::chain;
      case Algorithm::halving:
      case Algorithm::tree:
        return Tree::binomial;
      default:
        return Tree::star;
    }
  }

  template <class Each>
  void for_others(Each each) const {
    // Starting behind the own rank spreads the load: no rank is the first receiver of all others.
    for (int step = 1; step < size_; ++step) each((rank_ + step) % size_);
  }
  /// By growing place: an order in which both ends of every pair name their flows, and slices come by. To
  /// sum, a chain begins behind the owner and ends with it.
  template <class Each>
  void for_owners(Each each, int first_place = 0) const {
    for (int step = 0; step < size_; ++step) each((rank_ + 2 * size_ - first_place - step) % size_);
  }
  template <class Each>
  void for_owners_to_sum(Each each) const {
    for_owners(each, tree() == Tree::chain ? 1 : 0);
  }

  std::size_t send(int to, int stage, const std::byte* data, std::size_t size) {
    plan_.flows.push_back({.peer = to, .sends = true, .stage = stage, .out = data, .bytes = size});
    return plan_.flows.size() - 1;
  }
  std::size_t receive(int from, int stage, std::byte* data, std::size_t size) {
    plan_.flows.push_back({.peer = from, .sends = false, .stage = stage, .in = data, .bytes = size});
    return plan_.flows.size() - 1;
  }
  std::size_t send(int to, int stage, const Held& held, std::size_t size) {
    const std::size_t flow = send(to, stage, held.data, size);
    if (held.made_by) {
      plan_.flows[flow].made = true;
      plan_.reductions[*held.made_by].into.push_back(flow);
    }
    return flow;
  }

  /// This rank's part in bringing a sum to its owner: adds what it is handed to its own, and hands it on.
  /// @param result where to, on a rank that sums; null: to scratch
  Held sum_towards(int owner, const std::byte* own, std::byte* result, std::size_t size) {
    const int here = place(owner);
    const std::vector<int> handed = summands(tree(), here, size_);
    Held held{.data = own};
    if (!handed.empty() || here == 0) held = sum(owner, handed, own, result, size);
    if (here != 0) held.sent = send(rank_at(summed_by(tree(), here, size_), owner), 0, held, size);
    return held;
  }

  Held sum(int owner, const std::vector<int>& handed, const std::byte* own, std::byte* result,
           std::size_t size) {
    if (result == nullptr) result = scratch(size);
    Reduction reduction{.result = result, .bytes = size};
    take_whole(reduction, owner == rank_);
    std::vector<const std::byte*> by_rank(static_cast<std::size_t>(size_));
    by_rank[static_cast<std::size_t>(rank_)] = own;
    for (const int from : handed) {
      std::byte* const arrival = scratch(size);
      const int peer = rank_at(from, owner);
      by_rank[static_cast<std::size_t>(peer)] = arrival;
      reduction.from.push_back(receive(peer, 0, arrival, size));
    }
    std::erase(by_rank, nullptr);
    reduction.sources = std::move(by_rank);
    plan_.reductions.push_back(std::move(reduction));
    return {.data = result, .made_by = plan_.reductions.size() - 1};
  }

  /// This rank's part in bringing the owner's slice to all. @param held what this rank had there
  void tell_from(int owner, const Held& held, std::byte* data, std::size_t size) {
    const int here = place(owner);
    std::optional<std::size_t> heard;
    if (here != 0) {
      heard = receive(rank_at(told_by(tree(), here), owner), 1, data, size);
      // In place, a result arrives where the input leaves from.
      plan_.flows[*heard].after = held.sent;
    }
    for (const int to : told(tree(), here, size_)) {
      const int peer = rank_at(to, owner);
      if (heard) {
        plan_.flows[send(peer, 1, data, size)].after = heard;
      } else {
        send(peer, 1, held, size);
      }
    }
  }

  void all_reduce() {
    if (algorithm_ == Algorithm::small) return all_reduce_small();
    if (algorithm_ == Algorithm::doubling) return all_reduce_by_doubling();
    if (algorithm_ == Algorithm::tree) {
      tell_from(0, sum_towards(0, in(0), out(0), bytes(op_.count)), out(0), bytes(op_.count));
      return;
    }
    std::vector<Held> held(static_cast<std::size_t>(size_));
    for_owners_to_sum([&](int owner) {
      const auto [begin, count] = slice(owner);
      held[static_cast<std::size_t>(owner)] = sum_towards(owner, in(begin), out(begin), bytes(count));
    });
    for_owners([&](int owner) {
      const auto [begin, count] = slice(owner);
      tell_from(owner, held[static_cast<std::size_t>(owner)], out(begin), bytes(count));
    });
  }

  /// Every rank sends its input to all others, and each reduces for itself: one message's time instead of
  /// two.
  void all_reduce_small() {
    std::vector<std::size_t> sent;
    for_owners([&](int owner) {
      const Held held = sum_towards(owner, in(0), out(0), bytes(op_.count));
      if (held.sent) sent.push_back(*held.sent);
    });
    // In place, the result must not be there before the input has left.
    auto& from = plan_.reductions.front().from;
    from.insert(from.end(), sent.begin(), sent.end());
  }

  /// Every rank collects all inputs, twice as many with each step, and reduces for itself: the input of the rank j behind it stands at
  /// place j (Bruck et al. 1997, IEEE TPDS 8(11), concatenation).
  void all_reduce_by_doubling() {
    const std::size_t block = bytes(op_.count);
    std::byte* const collected = scratch(block * static_cast<std::size_t>(size_));
    const auto at = [=](int place) { return collected + block * static_cast<std::size_t>(place); };
    plan_.begin = copy(in(0), collected);
    Reduction reduction{.result = out(0), .bytes = block, .once_all_over = true};
    for (int have = 1; have < size_; have *= 2) {
      const std::size_t size = block * static_cast<std::size_t>(std::min(have, size_ - have));
      plan_.flows[send(rank_at(size_ - have, rank_), 0, collected, size)].after_all = reduction.from;
      reduction.from.push_back(receive(rank_at(have, rank_), 0, at(have), size));
    }
    for (int rank = 0; rank < size_; ++rank) reduction.sources.push_back(at((rank - rank_ + size_) % size_));
    take_whole(reduction, true);
    plan_.reductions.push_back(std::move(reduction));
  }

  /// A mean is taken of the whole sum.
  void take_whole(Reduction& reduction, bool is_whole) const {
    reduction.op = op_.op == ReduceOp::avg && !is_whole ? ReduceOp::sum : op_.op;
    if (op_.op == ReduceOp::avg) reduction.divisor = op_.divisor == 0 ? size_ : op_.divisor;
  }

  void reduce_to_root() {
    const bool is_root = rank_ == op_.root;
    if (algorithm_ != Algorithm::pairwise) {
      sum_towards(op_.root, in(0), is_root ? out(0) : nullptr, bytes(op_.count));
      return;
    }
    // Every rank sums its slice, and hands it to the root.
    for_owners([&](int owner) {
      const auto [begin, count] = slice(owner);
      const Held held = sum_towards(owner, in(begin), is_root ? out(begin) : nullptr, bytes(count));
      if (owner == rank_ && !is_root) send(op_.root, 1, held, bytes(count));
      if (owner != rank_ && is_root)
        plan_.flows[receive(owner, 1, out(begin), bytes(count))].after = held.sent;
    });
  }

  void reduce_scatter() {
    for_owners_to_sum([&](int owner) {
      sum_towards(owner, in(op_.count * owner), owner == rank_ ? out(0) : nullptr, bytes(op_.count));
    });
  }

  /// The sums of other ranks' parts go to these; those of its own come from a rank of each node, and are summed in the order of nodes.
  void reduce_parts() {
    const NodeParts& parts = *op_.parts;
    Reduction reduction{.result = out(0), .bytes = bytes(op_.count)};
    take_whole(reduction, true);
    const std::byte* own = nullptr;
    std::int64_t place = 0;
    for (const int owner : parts.of) {
      const std::byte* const sum = in(op_.count * place++);
      if (owner == rank_) {
        own = sum;
      } else {
        send(owner, 0, sum, reduction.bytes);
      }
    }
    for (const int from : parts.with) {
      std::byte* const arrival = from == rank_ ? nullptr : scratch(reduction.bytes);
      reduction.sources.push_back(from == rank_ ? own : arrival);
      if (from != rank_) reduction.from.push_back(receive(from, 0, arrival, reduction.bytes));
    }
    plan_.reductions.push_back(std::move(reduction));
  }

  void all_gather() {
    for_owners(
        [&](int owner) { tell_from(owner, {.data = in(0)}, out(op_.count * owner), bytes(op_.count)); });
    plan_.begin = copy(in(0), out(op_.count * rank_));
  }

  void all_to_all() {
    for_others([&](int other) { receive(other, 0, out(op_.count * other), bytes(op_.count)); });
    for_others([&](int other) { send(other, 0, in(op_.count * other), bytes(op_.count)); });
    plan_.begin = copy(in(op_.count * rank_), out(op_.count * rank_));
  }

  void broadcast() {
    if (algorithm_ != Algorithm::pairwise)
      return tell_from(op_.root, {.data = in(0)}, out(0), bytes(op_.count));
    // A slice to each, who passes it on to all: the root sends everything about twice, however many ranks
    // there are.
    if (rank_ == op_.root) {
      for_others([&](int other) { send(other, 0, in(slice(other).begin), bytes(slice(other).count)); });
      // Its own slice goes to all, for no other rank has it.
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

  // After round k every rank has heard, directly or not, of 2^(k+1) ranks.
  void barrier() {
    std::optional<std::size_t> heard;
    std::byte* const word = scratch(1);
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

  std::byte* scratch(std::size_t size) {
    if (size == 0) return nullptr;
    plan_.scratch.push_back(pool_.take(size));
    return plan_.scratch.back().view().bytes();
  }

  const Operation& op_;
  Algorithm algorithm_;
  int rank_;
  int size_;
  ScratchPool& pool_;
  ExchangePlan plan_;
};

}  // namespace

ExchangePlan plan_exchange(const Operation& operation, Algorithm algorithm, int rank, int size,
                           ScratchPool& pool) {
  return Planner(operation, algorithm, rank, size, pool).plan();
}

}  // namespace weft::detail
