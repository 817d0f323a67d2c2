// Random mixes of collectives, each checked against the sequential reference: numbers of ranks, groups,
// operations, types, lengths, memory and streams, with several operations under way at once.
//
// WEFT_MIXES says how many (default 100, tests/soak.sh mixes takes 1000), WEFT_SEED where they begin. What
// fails names its seed: WEFT_MIXES=1 WEFT_SEED=that repeats it.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>

#include "conformance/values.hpp"
#include "support/draw.hpp"
#include "support/ranks_on_nodes.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::test {
namespace {

std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fallback : std::strtoull(value, nullptr, 10);
}

/// A communicator and the ranks of the whole that it consists of.
struct Circle {
  Communicator comm;
  std::vector<int> members;

  /// Their nodes.
  std::vector<std::vector<int>> nodes() const {
    auto nodes = nodes_of(comm.topology());
    for (std::vector<int>& node : nodes) {
      for (int& rank : node) rank = members[static_cast<std::size_t>(rank)];
    }
    return nodes;
  }
};

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, barrier };

/// One operation of one rank, and what must come of it.
class Operation {
 public:
  Operation(Circle& circle, Draw& draw, std::uint64_t salt) : circle_(circle), salt_(salt) {
    kind_ = static_cast<Kind>(draw.below(7));
    dtype_ = static_cast<DataType>(draw.below(7));
    op_ = static_cast<ReduceOp>(draw.below(5));
    count_ = draw.length();
    root_ = draw.below(size());
    const bool arena = !draw.once_in(3);
    const bool in_place = draw.once_in(2);
    const std::int64_t n = size();
    const std::int64_t ins = kind_ == Kind::reduce_scatter || kind_ == Kind::all_to_all ? count_ * n : count_;
    const std::int64_t outs = kind_ == Kind::all_gather || kind_ == Kind::all_to_all ? count_ * n : count_;
    first_ = allocate(arena, std::max(ins, outs));
    if (in_place && kind_ != Kind::all_to_all) {
      const std::int64_t mine = circle_.comm.rank() * count_;
      in_ = first_.view().slice(kind_ == Kind::all_gather ? mine : 0, ins);
      out_ = first_.view().slice(kind_ == Kind::reduce_scatter ? mine : 0, outs);
    } else {
      second_ = allocate(arena, outs);
      in_ = first_.view().slice(0, ins);
      out_ = second_.view();
    }
    if (kind_ == Kind::broadcast) in_ = out_;
    fill();
  }

  void start(const Stream& stream) {
    Communicator& comm = circle_.comm;
    switch (kind_) {
      case Kind::all_reduce:
        comm.all_reduce(in_, out_, op_, stream);
        break;
      case Kind::reduce_scatter:
        comm.reduce_scatter(in_, out_, op_, stream);
        break;
      case Kind::all_gather:
        comm.all_gather(in_, out_, stream);
        break;
      case Kind::broadcast:
        comm.broadcast(out_, root_, stream);
        break;
      case Kind::reduce:
        comm.reduce(in_, out_, op_, root_, stream);
        break;
      case Kind::all_to_all:
        comm.all_to_all(in_, out_, stream);
        break;
      case Kind::barrier:
        comm.barrier(stream);
        break;
    }
  }

  /// Elements of the output that are wrong.
  std::int64_t wrong() const {
    if (kind_ == Kind::barrier || (kind_ == Kind::reduce && circle_.comm.rank() != root_)) return 0;
    return dispatch(dtype_, [&]<class T>(std::type_identity<T>) {
      std::int64_t count = 0;
      const auto elements = out_.template as<T>();
      for (std::size_t i = 0; i < elements.size(); ++i)
        if (!same_bits(elements[i], expected<T>(static_cast<std::int64_t>(i)))) ++count;
      return count;
    });
  }
  std::string what() const {
    return text("kind ", static_cast<int>(kind_), " of ", count_, " ", dtype_, " (", op_, ", root ", root_,
                ") on ", size(), " ranks");
  }

 private:
  int size() const { return circle_.comm.size(); }
  int whole_rank(int rank) const { return circle_.members[static_cast<std::size_t>(rank)]; }
  Buffer allocate(bool arena, std::int64_t count) {
    return arena ? circle_.comm.allocate(dtype_, count) : Buffer::on_host(dtype_, count);
  }
  std::int64_t salted(std::int64_t i) const { return i + static_cast<std::int64_t>(salt_ % 100'003); }

  void fill() {
    dispatch(dtype_, [&]<class T>(std::type_identity<T>) {
      if (kind_ == Kind::broadcast && circle_.comm.rank() != root_) return;
      const auto elements = in_.template as<T>();
      for (std::size_t i = 0; i < elements.size(); ++i)
        elements[i] = ordinary<T>(whole_rank(circle_.comm.rank()), salted(static_cast<std::int64_t>(i)));
    });
  }

  template <class T>
  T expected(std::int64_t i) const {
    const std::int64_t mine = circle_.comm.rank() * count_;
    const auto sent = [&](int rank, std::int64_t at) { return ordinary<T>(whole_rank(rank), salted(at)); };
    switch (kind_) {
      case Kind::all_reduce:
      case Kind::reduce:
        return reduced<T>(circle_.nodes(), size(), salted(i), op_);
      case Kind::reduce_scatter:
        return reduced<T>(circle_.nodes(), size(), salted(mine + i), op_);
      case Kind::all_gather:
        return sent(static_cast<int>(i / count_), i % count_);
      case Kind::broadcast:
        return sent(root_, i);
      case Kind::all_to_all:
        return sent(static_cast<int>(i / count_), mine + i % count_);
      case Kind::barrier:
        break;
    }
    return T{};
  }

  Circle& circle_;
  std::uint64_t salt_;
  Kind kind_{};
  DataType dtype_{};
  ReduceOp op_{};
  std::int64_t count_ = 0;
  int root_ = 0;
  Buffer first_;
  Buffer second_;
  View in_;
  View out_;
};

/// The ranks of each color, in order.
Circle part_of(Communicator& whole, Draw& draw) {
  std::vector<int> colors;
  const int groups = 1 + draw.below(3);
  for (int rank = 0; rank < whole.size(); ++rank) colors.push_back(draw.below(groups));
  const int own = colors[static_cast<std::size_t>(whole.rank())];
  Circle result{*whole.split(own), {}};
  for (int rank = 0; rank < whole.size(); ++rank) {
    if (colors[static_cast<std::size_t>(rank)] == own) result.members.push_back(rank);
  }
  return result;
}

void mix(Communicator whole, std::uint64_t seed) {
  Draw draw(seed);
  Circle all{whole, {}};
  for (int rank = 0; rank < whole.size(); ++rank) all.members.push_back(rank);
  Circle part = part_of(whole, draw);
  // What ranks of a part draw for it, the others must not: every part has a sequence of its own.
  Draw own(seed * 1000 + static_cast<std::uint64_t>(part.members.front()));
  std::vector<std::unique_ptr<Operation>> operations;
  {
    std::vector<Stream> streams(2);
    if (draw.once_in(3)) streams.push_back(Stream::queued());
    for (std::uint64_t i = 0; i < 12; ++i) {
      Circle& circle = draw.once_in(2) ? all : part;
      Draw& source = &circle == &all ? draw : own;
      operations.push_back(std::make_unique<Operation>(circle, source, seed * 64 + i));
      operations.back()->start(
          streams[static_cast<std::size_t>(source.below(static_cast<int>(streams.size())))]);
    }
    for (Stream& stream : streams) stream.synchronize(Deadline::in(std::chrono::seconds(100)));
  }
  for (const auto& one : operations) EXPECT_EQ(one->wrong(), 0) << one->what() << "; WEFT_SEED=" << seed;
  Stream stream;
  whole.barrier(stream).wait();  // nobody frees what another still reads
}

TEST(Mixes, AgreeWithTheSequentialReference) {
  const std::uint64_t seed = setting("WEFT_SEED", 1);
  const std::uint64_t count = setting("WEFT_MIXES", 100);
  for (std::uint64_t i = 0; i < count && !HasFailure(); ++i) {
    const int ranks = 1 + static_cast<int>((seed + i) % 6);
    const bool shared_memory = (seed + i) % 4 != 0;
    run_as_threads(ranks, [&](Communicator comm) { mix(comm, seed + i); }, {.shared_memory = shared_memory});
  }
}

#if WEFT_HAS_BOOST
TEST(Mixes, AgreeWithTheSequentialReferenceInEveryLayoutOfNodes) {
  const std::uint64_t seed = setting("WEFT_SEED", 1);
  const std::uint64_t count = (setting("WEFT_MIXES", 100) + 3) / 4;
  for (std::uint64_t i = 0; i < count && !HasFailure(); ++i) {
    Draw draw(seed + i);
    run_on_nodes(drawn_layout(draw), [&](Communicator comm) { mix(comm, seed + i); });
  }
}

/// What all ranks hand to the network.
std::uint64_t network_bytes(
    const std::vector<std::string>& nodes,
    const std::function<void(Communicator&, const View& all, const View& part)>& body) {
  std::atomic<std::uint64_t> bytes = 0;
  run_on_nodes(nodes, [&](Communicator comm) {
    Buffer all = comm.allocate(DataType::f32, 1000 * comm.size());
    Buffer part = comm.allocate(DataType::f32, 1000);
    body(comm, all.view(), part.view());
    bytes += comm.network_bytes();
  });
  return bytes;
}

// docs/algorithms.md: (M-1) S
TEST(Mixes, TheNetworkCarriesEveryPartOnceForEachOtherNode) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Draw draw(seed);
    const std::vector<std::string> nodes = drawn_layout(draw);
    const auto others = static_cast<std::uint64_t>(Topology(nodes).nodes() - 1);
    const std::uint64_t right = others * nodes.size() * 1000 * sizeof(float);
    EXPECT_EQ(network_bytes(nodes,
                            [&](Communicator& comm, const View& all, const View& part) {
                              comm.reduce_scatter(all, part, ReduceOp::sum, Stream()).wait();
                            }),
              right)
        << "reduce_scatter, seed " << seed;
    EXPECT_EQ(network_bytes(nodes, [&](Communicator& comm, const View& all,
                                       const View& part) { comm.all_gather(part, all, Stream()).wait(); }),
              right)
        << "all_gather, seed " << seed;
  }
}
#endif

}  // namespace
}  // namespace weft::test
