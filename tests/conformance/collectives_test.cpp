// What every backend must do, whatever carries the bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>

#include "conformance/ranks.hpp"
#include "conformance/values.hpp"
#include "support/expect_error.hpp"
#include "weft/core/copy.hpp"

namespace weft::test {
namespace {

enum class Memory { allocated, own, in_place };

/// Input and output of one operation. In place, the smaller is the part of the larger that starts at
/// `offset`.
struct Buffers {
  Buffers(Communicator& comm, Memory memory, DataType dtype, std::int64_t in_count, std::int64_t out_count,
          std::int64_t offset = 0) {
    const auto make = [&](std::int64_t count) {
      return memory == Memory::own ? Buffer::on(comm.device(), dtype, count) : comm.allocate(dtype, count);
    };
    if (memory == Memory::in_place) {
      first_ = make(std::max(in_count, out_count));
      in = in_count < out_count ? first_.view().slice(offset, in_count) : first_.view();
      out = out_count < in_count ? first_.view().slice(offset, out_count) : first_.view();
    } else {
      first_ = make(in_count);
      second_ = make(out_count);
      in = first_.view();
      out = second_.view();
    }
  }

  View in;
  View out;

 private:
  Buffer first_;
  Buffer second_;
};

template <class T, class Value>
void fill(const View& view, Value value) {
  std::vector<T> elements(static_cast<std::size_t>(view.count()));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = value(static_cast<std::int64_t>(i));
  Stream stream(view.device());
  copy(view, ConstView(std::span(elements)), stream);
  stream.synchronize();
}

template <class T>
std::vector<T> read(const View& view) {
  std::vector<T> elements(static_cast<std::size_t>(view.count()));
  Stream stream(view.device());
  copy(View(std::span(elements)), view, stream);
  stream.synchronize();
  return elements;
}

template <class T, class Value, class Same>
void expect(const View& view, const std::string& what, Value value, Same same) {
  const std::vector<T> elements = read<T>(view);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    ASSERT_TRUE(same(elements[i], value(at), at))
        << what << " of " << elements.size() << " " << view.dtype() << " is wrong at element " << i;
  }
}

template <class T, class Value>
void expect(const View& view, const std::string& what, Value value) {
  expect<T>(view, what, value, [](const T& a, const T& b, std::int64_t) { return same_bits(a, b); });
}

/// A device's library sums in an order of its own and rounds on the way; and so may algorithms where ranks
/// were told that any order will do.
bool sums_in_rank_order(const Communicator& comm) {
  static const bool any = Environment::of_process().value(env::order) == "any";
  return comm.device().is_host() && !any;
}

/// `view` starts at element `offset` of the reduction. To the bit where the order of sums is known.
template <class T>
void expect_reduced(Communicator& comm, const View& view, ReduceOp op, std::int64_t offset = 0) {
  const auto nodes = nodes_of(comm.topology());
  const auto exact = [&](std::int64_t i) { return reduced<T>(nodes, comm.size(), offset + i, op); };
  expect<T>(view, text("reduction ", op), exact, [&](const T& got, const T& right, std::int64_t i) {
    if (sums_in_rank_order(comm) || std::is_integral_v<T>) return same_bits(got, right);
    return near_reduction(got, right, comm.size(), offset + i, op);
  });
}

/// A device refuses means of bytes, whose sums wrap, and what NCCL has not: 16-bit integers and bitwise
/// operations. And products of many 16-bit numbers leave their range on the way there, in which order is not
/// ours to say.
template <class T>
bool has_reduction(const Communicator& comm, ReduceOp op) {
  if (comm.device().is_host()) return true;
  if (data_type_of<T> == DataType::i16 || is_bitwise(op)) return false;
  if (op == ReduceOp::avg) return sizeof(T) > 1;
  return op != ReduceOp::prod || sizeof(T) > 2 || comm.size() <= 2;
}

/// Every data type, memory and length; long ones for one type only.
template <class Body>
void for_all_buffers(Body body) {
  for (const Memory memory : {Memory::allocated, Memory::own, Memory::in_place}) {
    for (const DataType dtype : all_types) {
      dispatch(dtype, [&]<class T>(std::type_identity<T>) {
        for (const std::int64_t n : lengths) body.template operator()<T>(memory, n);
      });
    }
    body.template operator()<float>(memory, long_length);
  }
}

TEST(Collectives, AllReduceGivesEveryRankTheReductionInRankOrder) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
      for_all_buffers([&]<class T>(Memory memory, std::int64_t n) {
        if (!has_reduction<T>(comm, op)) return;
        const Buffers data(comm, memory, data_type_of<T>, n, n);
        fill<T>(data.in, [&](std::int64_t i) { return ordinary<T>(comm.rank(), i); });
        comm.all_reduce(data.in, data.out, op, stream).wait();
        expect_reduced<T>(comm, data.out, op);
      });
    }
  });
}

// Their loops are those of the other integers, so one memory and few lengths will do.
TEST(Collectives, IntegersOfEveryWidthAreReducedAlsoBitByBit) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    for (const DataType dtype : {DataType::i8, DataType::i16, DataType::u32, DataType::u64, DataType::u8,
                                 DataType::i32, DataType::i64}) {
      for (int i = 0; i <= static_cast<int>(last_reduce_op); ++i) {
        const auto op = static_cast<ReduceOp>(i);
        dispatch(dtype, [&]<class T>(std::type_identity<T>) {
          if (!has_reduction<T>(comm, op)) return;
          const Buffers data(comm, Memory::allocated, dtype, 4099, 4099);
          fill<T>(data.in, [&](std::int64_t at) { return ordinary<T>(comm.rank(), at); });
          comm.all_reduce(data.in, data.out, op, stream).wait();
          expect_reduced<T>(comm, data.out, op);
        });
      }
    }
  });
}

TEST(Collectives, ElementsThatMoveMayHaveAnyType) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    for (const DataType dtype : {DataType::i8, DataType::i16, DataType::u32, DataType::u64}) {
      dispatch(dtype, [&]<class T>(std::type_identity<T>) {
        const std::int64_t n = 65;
        const Buffers data(comm, Memory::allocated, dtype, n, n * comm.size());
        fill<T>(data.in, [&](std::int64_t at) { return mark<T>(comm.rank(), at); });
        comm.all_gather(data.in, data.out, stream).wait();
        expect<T>(data.out, "all_gather",
                  [&](std::int64_t at) { return mark<T>(static_cast<int>(at / n), at % n); });
      });
    }
  });
}

TEST(Collectives, BitsOfFloatingPointNumbersAreNotReduced) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    Buffer data = comm.allocate(DataType::bf16, comm.size());
    const std::initializer_list<std::string> says{"bxor of bf16", "give integers"};
    expect_error(ErrorKind::usage, says, [&] { comm.all_reduce(data.view(), ReduceOp::bxor, stream); });
    expect_error(ErrorKind::usage, says,
                 [&] { comm.reduce(data.view(), data.view(), ReduceOp::bxor, 0, stream); });
    Buffer part = comm.allocate(DataType::bf16, 1);
    expect_error(ErrorKind::usage, says,
                 [&] { comm.reduce_scatter(data.view(), part.view(), ReduceOp::bxor, stream); });
  });
}

TEST(Collectives, ReduceScatterGivesEachRankItsPart) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      for_all_buffers([&]<class T>(Memory memory, std::int64_t n) {
        if (!has_reduction<T>(comm, op)) return;
        const std::int64_t offset = comm.rank() * n;
        const Buffers data(comm, memory, data_type_of<T>, n * comm.size(), n, offset);
        fill<T>(data.in, [&](std::int64_t i) { return ordinary<T>(comm.rank(), i); });
        comm.reduce_scatter(data.in, data.out, op, stream).wait();
        expect_reduced<T>(comm, data.out, op, offset);
      });
    }
  });
}

// Two ranks' 61440 are more than f16 holds.
TEST(Collectives, AMeanFitsWhereItsSumDoesNot) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    const std::int64_t parts = 5;
    Buffer large = Buffer::on(comm.device(), DataType::f16, parts * comm.size());
    Buffer means = Buffer::on(comm.device(), DataType::f16, parts * comm.size());
    Buffer part = Buffer::on(comm.device(), DataType::f16, parts);
    const std::vector<Half> values(static_cast<std::size_t>(large.count()), static_cast<Half>(61440.0F));
    copy(large.view(), ConstView(std::span(values)), stream);
    comm.all_reduce(ConstView(large.view()), means.view(), ReduceOp::avg, stream);
    comm.reduce_scatter(ConstView(large.view()), part.view(), ReduceOp::avg, stream);
    for (const View result : {means.view(), part.view()}) {
      std::vector<Half> seen(static_cast<std::size_t>(result.count()));
      copy(View(std::span(seen)), result, stream);
      stream.synchronize(Deadline::in(std::chrono::seconds(30)));
      for (const Half one : seen) {
        if (comm.device().is_host()) {
          EXPECT_EQ(static_cast<float>(one), 61440.0F);
        } else {
          EXPECT_NEAR(static_cast<float>(one), 61440.0F,
                      64.0F);  // sums there are rounded on their way, in any order
        }
      }
    }
  });
}

TEST(Collectives, AllGatherGivesEveryRankEverything) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    for_all_buffers([&]<class T>(Memory memory, std::int64_t n) {
      const Buffers data(comm, memory, data_type_of<T>, n, n * comm.size(), comm.rank() * n);
      fill<T>(data.in, [&](std::int64_t i) { return mark<T>(comm.rank(), i); });
      comm.all_gather(data.in, data.out, stream).wait();
      expect<T>(data.out, "all_gather",
                [&](std::int64_t i) { return mark<T>(static_cast<int>(i / n), i % n); });
    });
  });
}

TEST(Collectives, BroadcastGivesEveryRankTheRootsData) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    for (int root = 0; root < comm.size(); ++root) {
      for_all_buffers([&]<class T>(Memory memory, std::int64_t n) {
        const Buffers data(comm, memory, data_type_of<T>, n, 0);
        fill<T>(data.in, [&](std::int64_t i) { return mark<T>(comm.rank(), i); });
        comm.broadcast(data.in, root, stream).wait();
        expect<T>(data.in, "broadcast", [&](std::int64_t i) { return mark<T>(root, i); });
      });
    }
  });
}

TEST(Collectives, ReduceWritesOnlyTheRoot) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    for (int root = 0; root < comm.size(); ++root) {
      for_all_buffers([&]<class T>(Memory memory, std::int64_t n) {
        const Buffers data(comm, memory, data_type_of<T>, n, n);
        fill<T>(data.out, [&](std::int64_t i) { return mark<T>(99, i); });
        fill<T>(data.in, [&](std::int64_t i) { return ordinary<T>(comm.rank(), i); });
        const View nothing(nullptr, 0, data_type_of<T>, comm.device());
        comm.reduce(data.in, comm.rank() == root ? data.out : nothing, ReduceOp::sum, root, stream).wait();
        if (comm.rank() == root) return expect_reduced<T>(comm, data.out, ReduceOp::sum);
        const bool in_place = memory == Memory::in_place;
        expect<T>(data.out, "reduce",
                  [&](std::int64_t i) { return in_place ? ordinary<T>(comm.rank(), i) : mark<T>(99, i); });
      });
    }
  });
}

TEST(Collectives, AllToAllExchangesTheParts) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    for_all_buffers([&]<class T>(Memory memory, std::int64_t n) {
      if (memory == Memory::in_place) return;
      const Buffers data(comm, memory, data_type_of<T>, n * comm.size(), n * comm.size());
      fill<T>(data.in, [&](std::int64_t i) { return mark<T>(comm.rank(), i); });
      comm.all_to_all(data.in, data.out, stream).wait();
      expect<T>(data.out, "all_to_all",
                [&](std::int64_t i) { return mark<T>(static_cast<int>(i / n), comm.rank() * n + i % n); });
    });
  });
}

TEST(Collectives, SendsAndReceivesOfAGroupCannotDeadlock) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    const int right = (comm.rank() + 1) % comm.size();
    const int left = (comm.rank() + comm.size() - 1) % comm.size();
    for_all_buffers([&]<class T>(Memory memory, std::int64_t n) {
      if (memory == Memory::in_place) return;
      const Buffers to_right(comm, memory, data_type_of<T>, n, n);
      const Buffers to_left(comm, memory, data_type_of<T>, n, n);
      fill<T>(to_right.in, [&](std::int64_t i) { return mark<T>(comm.rank(), i); });
      fill<T>(to_left.in, [&](std::int64_t i) { return mark<T>(comm.rank() + 100, i); });
      // Everybody receives first: taken one by one, these would wait for each other for ever. In a ring of
      // two both messages join the same ranks and match in the order of the calls.
      Group(comm)
          .receive(to_right.out, left)
          .receive(to_left.out, right)
          .send(to_right.in, right)
          .send(to_left.in, left)
          .start(stream)
          .wait();
      expect<T>(to_right.out, "received from the left", [&](std::int64_t i) { return mark<T>(left, i); });
      expect<T>(to_left.out, "received from the right",
                [&](std::int64_t i) { return mark<T>(right + 100, i); });
    });
  });
}

TEST(Collectives, MessagesBetweenTwoRanksMatchInOrder) {
  on_ranks([](Communicator comm) {
    Stream stream;
    constexpr int messages = 20;
    std::vector<std::int64_t> numbers(messages, -1);
    Group group(comm);
    if (comm.rank() == 0) {
      for (int i = 0; i < messages; ++i) numbers[static_cast<std::size_t>(i)] = i * i;
      for (auto& number : numbers) group.send(ConstView(std::span(&number, 1)), comm.size() - 1);
    }
    std::vector<std::int64_t> received(messages, -1);
    if (comm.rank() == comm.size() - 1) {
      for (auto& number : received) group.receive(View(std::span(&number, 1)), 0);
    }
    group.start(stream).wait();
    for (std::int64_t i = 0; i < messages && comm.rank() == comm.size() - 1; ++i)
      EXPECT_EQ(received[static_cast<std::size_t>(i)], i * i);
  });
}

// Within a node. Between nodes groups follow each other, whatever their peers.
TEST(Collectives, MessagesToAndFromAPeerMayGoOnStreamsOfTheirOwn) {
  on_ranks([](Communicator comm) {
    if (comm.topology().nodes() > 1) return;
    const int next = (comm.rank() + 1) % comm.size();
    const int before = (comm.rank() + comm.size() - 1) % comm.size();
    Stream out = Stream::queued();
    Stream in = Stream::queued();
    for (std::int64_t round = 0; round < 20; ++round) {
      std::vector<std::int64_t> mine(5000, 100 * round + comm.rank());
      std::vector<std::int64_t> theirs(5000, -1);
      Group sends(comm);
      Group receives(comm);
      sends.send(ConstView(std::span(mine)), next);
      receives.receive(View(std::span(theirs)), before);
      // In one chain, a ring of ranks that all receive first would wait for ever.
      const Work received = receives.start(in);
      const Work sent = sends.start(out);
      received.wait();
      sent.wait();
      for (const std::int64_t one : theirs) ASSERT_EQ(one, 100 * round + before) << "round " << round;
    }
  });
}

TEST(Collectives, AFunctionOfAnOperationIsCalledOnceAndMayIssueTheNext) {
  on_ranks([](Communicator comm) {
    constexpr int operations = 20;
    Stream stream(comm.device());
    Buffer memory = comm.allocate(DataType::f32, 5000);
    fill<float>(memory.view(), [](std::int64_t) { return 1.0F; });
    int issued = 0;
    std::atomic<bool> over = false;
    // One chain: the function of each issues the next, in the thread that found it done.
    std::function<void()> next = [&] {
      if (issued++ == operations) {
        over = true;
        return;
      }
      comm.all_reduce(memory.view(), ReduceOp::avg, stream).then(next);
    };
    next();
    while (!over) stream.poll();
    stream.synchronize();
    EXPECT_EQ(issued, operations + 1);
    expect<float>(memory.view(), "a mean of ones", [](std::int64_t) { return 1.0F; });
  });
}

TEST(Collectives, AnOperationMayHaveATimeoutOfItsOwn) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    const auto before = comm.timeout();
    Buffer memory = comm.allocate(DataType::f32, 100);
    comm.timeout(std::chrono::nanoseconds::max());  // longer than a clock counts
    comm.all_reduce(memory.view(), ReduceOp::sum, stream).wait();
    comm.timeout(std::chrono::seconds(50));
    comm.barrier(stream).wait();
    Group group(comm);
    group.send(memory.view(), (comm.rank() + 1) % comm.size());
    Buffer other = comm.allocate(DataType::f32, 100);
    group.receive(other.view(), (comm.rank() + comm.size() - 1) % comm.size());
    group.start(stream).wait(Deadline::in(std::chrono::seconds(40)));
    EXPECT_EQ(comm.timeout(), std::chrono::seconds(50));
    comm.timeout(before);
  });
}

TEST(Collectives, NobodyLeavesABarrierBeforeEverybodyIsThere) {
  on_ranks([](Communicator comm) {
    Stream stream;
    // Rank r arrives late in round r; a barrier that lets anybody through early reads a count that is not
    // there yet.
    Stream barriers(comm.device());
    for (int round = 0; round < comm.size(); ++round) {
      if (comm.rank() == round) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      const auto begin = std::chrono::steady_clock::now().time_since_epoch().count();
      comm.barrier(barriers).wait();
      const auto end = std::chrono::steady_clock::now().time_since_epoch().count();
      std::vector<std::int64_t> latest{begin};
      comm.all_reduce(View(std::span(latest)), ReduceOp::max, stream).wait();
      EXPECT_GE(end, latest[0]) << "round " << round;
    }
  });
}

#if !WEFT_THROUGH_C  // it is not for users
TEST(Collectives, RanksOfANodeSeeTheNumberThatEachShows) {
  on_ranks([](Communicator comm) {
    Stream stream;
    const auto number = [](int rank) { return 1'000'000'000'000U + static_cast<std::uint64_t>(rank); };
    detail::show(comm, number(comm.rank()));
    comm.barrier(stream).wait();
    for (int rank = 0; rank < comm.size(); ++rank) {
      const bool is_near = comm.topology().node_of(rank) == comm.topology().node_of(comm.rank());
      if (is_near) {
        EXPECT_EQ(detail::shown(comm, rank), number(rank));
      } else {
        EXPECT_EQ(detail::shown(comm, rank), std::nullopt);
      }
    }
    comm.barrier(stream).wait();
  });
}
#endif

TEST(Collectives, ManyMayBePostedBeforeAnybodyWaits) {
  on_ranks([](Communicator comm) {
    std::vector<Stream> streams{Stream(comm.device())};
    if (comm.device().is_host()) streams.push_back(Stream::queued());
    for (Stream& stream : streams) {
      std::vector<Buffer> data;
      for (int i = 0; i < 30; ++i) {
        data.push_back(comm.allocate(DataType::i64, 100 + i));
        fill<std::int64_t>(data.back().view(), [&](std::int64_t k) { return comm.rank() + i * k; });
        comm.all_reduce(data.back().view(), ReduceOp::sum, stream);
      }
      stream.synchronize();
      const std::int64_t ranks = comm.size();
      for (int i = 0; i < 30; ++i) {
        expect<std::int64_t>(data[static_cast<std::size_t>(i)].view(), "all_reduce",
                             [&](std::int64_t k) { return ranks * (ranks - 1) / 2 + ranks * i * k; });
      }
    }
  });
}

TEST(Collectives, StreamsOfOneCommunicatorAreJoinedByEvents) {
  on_ranks([](Communicator comm) {
    Stream first = Stream::queued();
    Stream second;
    std::vector<std::int64_t> data{1};
    for (int i = 0; i < 10; ++i) {
      Stream& mine = i % 2 == 0 ? first : second;
      mine.wait((i % 2 == 0 ? second : first).record());
      comm.all_reduce(View(std::span(data)), ReduceOp::sum, mine);
    }
    second.synchronize();
    first.synchronize();
    std::int64_t expected = 1;
    for (int i = 0; i < 10; ++i) expected *= comm.size();
    EXPECT_EQ(data[0], expected);
  });
}

/// Is over when it is let go.
class Gate final : public Task {
 public:
  explicit Gate(const bool& open) : open_(open) {}
  bool advance() override { return open_; }

 private:
  const bool& open_;
};

// Such as the gathers of parameters behind a step of the optimizer: no thread waits for them until the next forward.
TEST(Collectives, OperationsThatNoThreadWaitsForYetHoldUpNoLaterOnes) {
  on_ranks([](Communicator comm) {
    constexpr int operations = 100;  // more than a backend has places for
    std::vector<std::vector<std::int64_t>> early(4, std::vector<std::int64_t>(3000, 1));
    bool open = false;
    Stream gate;
    gate.submit(std::make_unique<Gate>(open));
    std::vector<Stream> lanes(early.size());
    for (std::size_t i = 0; i < early.size(); ++i) {
      lanes[i].wait(gate.record());
      comm.all_reduce(View(std::span(early[i])), ReduceOp::sum, lanes[i]);
    }
    open = true;
    Stream stream;
    std::vector<std::int64_t> late(2, 1);
    for (int i = 0; i < operations; ++i) comm.all_reduce(View(std::span(late)), ReduceOp::max, stream).wait();
    EXPECT_EQ(late, std::vector<std::int64_t>(2, 1));
    for (Stream& lane : lanes) lane.synchronize();
    for (const auto& one : early) EXPECT_EQ(one, std::vector<std::int64_t>(3000, comm.size()));
  });
}

// Half of the ranks wait for the one first, half for the other, and the first is still behind an event when it is issued.
TEST(Collectives, RanksMayWaitForOperationsOfTwoCommunicatorsInAnyOrder) {
  on_ranks([](Communicator comm) {
    Communicator other = *comm.split(0);
    for (const bool is_of_one : {true, false}) {
      std::vector<std::int64_t> first(3000, 1);
      std::vector<std::int64_t> second(3000, 1);
      bool open = false;
      Stream gate;
      gate.submit(std::make_unique<Gate>(open));
      Stream lane;
      lane.wait(gate.record());
      const Work early = comm.all_reduce(View(std::span(first)), ReduceOp::sum, lane);
      open = true;
      Stream stream;
      if (comm.rank() % 2 == 1) early.wait();
      (is_of_one ? comm : other).all_reduce(View(std::span(second)), ReduceOp::sum, stream).wait();
      early.wait();
      EXPECT_EQ(first, std::vector<std::int64_t>(3000, comm.size()));
      EXPECT_EQ(second, first);
    }
  });
}

// Each rank must carry on what others wait for while it waits for something else; and there are more
// operations than a backend has places for.
TEST(Collectives, RanksMayWaitForOperationsOfManyStreamsInAnyOrder) {
  on_ranks([](Communicator comm) {
    constexpr std::size_t operations = 100;
    std::vector<Buffer> data;
    std::vector<Stream> streams(2 * operations);
    std::vector<Work> works;
    const auto value = [&](std::size_t i) { return static_cast<std::int64_t>(i) * 100 + comm.rank(); };
    std::vector<std::int64_t> sent(operations);
    std::vector<std::int64_t> received(operations, -1);
    for (std::size_t i = 0; i < operations; ++i) {
      const bool reachable = i % 3 != 0 && comm.device().is_host();
      data.push_back(reachable ? comm.allocate(DataType::i64, 5000) : Buffer::on_host(DataType::i64, 5000));
      std::ranges::fill(data.back().as<std::int64_t>(), value(i));
      works.push_back(comm.all_reduce(data.back().view(), ReduceOp::max, streams[2 * i]));
      sent[i] = value(i);
      Group group(comm);
      group.send(ConstView(std::span(&sent[i], 1)), (comm.rank() + 1) % comm.size());
      group.receive(View(std::span(&received[i], 1)), (comm.rank() + comm.size() - 1) % comm.size());
      works.push_back(group.start(streams[2 * i + 1]));
    }
    if (comm.rank() % 2 == 1) std::ranges::reverse(works);
    for (const Work& work : works) work.wait();
    const int left = (comm.rank() + comm.size() - 1) % comm.size();
    for (std::size_t i = 0; i < operations; ++i) {
      const auto largest = static_cast<std::int64_t>(i) * 100 + comm.size() - 1;
      expect<std::int64_t>(data[i].view(), "all_reduce", [&](std::int64_t) { return largest; });
      EXPECT_EQ(received[i], static_cast<std::int64_t>(i) * 100 + left);
    }
  });
}

TEST(Collectives, SplitMakesGroupsOrderedByKey) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    // Odd and even ranks, counted downwards; the last rank stays out.
    const bool out = comm.rank() == comm.size() - 1;
    const auto part = comm.split(out ? std::nullopt : std::optional(comm.rank() % 2), -comm.rank());
    EXPECT_EQ(part.has_value(), !out);
    if (!part) return;
    const int members = (comm.size() - 1 - comm.rank() % 2 + 1) / 2;
    EXPECT_EQ(part->size(), members);
    EXPECT_EQ(part->rank(), members - 1 - comm.rank() / 2);
    Communicator group = *part;
    const Buffers data(group, Memory::allocated, DataType::i64, 1, members);
    fill<std::int64_t>(data.in, [&](std::int64_t) { return comm.rank(); });
    group.all_gather(data.in, data.out, stream).wait();
    expect<std::int64_t>(data.out, "all_gather",
                         [&](std::int64_t i) { return comm.rank() % 2 + 2 * (members - 1 - i); });
    const auto again = group.split(0);
    EXPECT_EQ(again->size(), members);
  });
}

TEST(Collectives, TheLedgerCountsWhatTheOperationsSend) {
  on_ranks([](Communicator comm) {
    Stream stream(comm.device());
    const auto n = static_cast<std::uint64_t>(comm.size());
    Buffer whole = comm.allocate(DataType::f32, 1000 * comm.size());
    Buffer part = comm.allocate(DataType::f32, 1000);
    const std::uint64_t before = comm.wire_bytes();
    comm.all_reduce(whole.view(), ReduceOp::sum, stream).wait();
    EXPECT_EQ(comm.wire_bytes() - before, 2 * (n - 1) * 4000);
    comm.reduce_scatter(whole.view(), part.view(), ReduceOp::sum, stream).wait();
    EXPECT_EQ(comm.wire_bytes() - before, 3 * (n - 1) * 4000);
    comm.all_gather(part.view(), whole.view(), stream).wait();
    EXPECT_EQ(comm.wire_bytes() - before, 4 * (n - 1) * 4000);
  });
}

// A rank may wait for its device and then for its host in one order, and its neighbour in the other.
TEST(Collectives, HostAndDeviceMemoryMayBeMixed) {
  on_ranks([](Communicator comm) {
    Stream host;
    Stream device(comm.device());
    std::vector<std::int64_t> numbers{1};
    Buffer more = comm.allocate(DataType::i64, 1000);
    fill<std::int64_t>(more.view(), [](std::int64_t i) { return i; });
    const Work here = comm.all_reduce(View(std::span(numbers)), ReduceOp::sum, host);
    const Work there = comm.all_reduce(more.view(), ReduceOp::sum, device);
    (comm.rank() % 2 == 0 ? here : there).wait();
    (comm.rank() % 2 == 0 ? there : here).wait();
    EXPECT_EQ(numbers[0], comm.size());
    expect<std::int64_t>(more.view(), "all_reduce", [&](std::int64_t i) { return i * comm.size(); });
    if (comm.device().is_host()) return;
    expect_error(ErrorKind::usage, {"used on a stream of host", "use a stream of the buffer's device"},
                 [&] { comm.all_reduce(more.view(), ReduceOp::sum, host); });
    expect_error(ErrorKind::usage, {"a buffer on host used on a stream of cuda"},
                 [&] { comm.all_reduce(View(std::span(numbers)), ReduceOp::sum, device); });
    expect_error(ErrorKind::usage, {"a buffer on cuda:99 given to a communicator of cuda:", "copy it"}, [&] {
      comm.all_reduce(View(more.view().data(), 1, DataType::i64, Device::cuda(99)), ReduceOp::sum, device);
    });
    expect_error(ErrorKind::usage, {"avg of u8", "sums there wrap"},
                 [&] { comm.all_reduce(comm.allocate(DataType::u8, 1).view(), ReduceOp::avg, device); });
    expect_error(ErrorKind::usage, {"sum of i16", "NCCL has no such reduction", "a wider type"},
                 [&] { comm.all_reduce(comm.allocate(DataType::i16, 1).view(), ReduceOp::sum, device); });
    expect_error(ErrorKind::usage, {"bor of u32", "NCCL has no such reduction", "on the host"},
                 [&] { comm.all_reduce(comm.allocate(DataType::u32, 1).view(), ReduceOp::bor, device); });
  });
}

// Only where a table has chosen MPI's own: the program for that is one of its own.
TEST(Collectives, MorePartsThanMpiCountsAreRefusedAtTheCall) {
  on_ranks([](Communicator comm) {
    constexpr std::int64_t many = std::int64_t{1} << 31;
    if (!comm.explain(Collective::broadcast, DataType::u8, many).starts_with("mpi")) return;
    std::byte one{};
    Stream stream;
    expect_error(ErrorKind::usage, {"carries at most 2147483647 elements, not 2147483648"},
                 [&] { comm.broadcast(View(&one, many, DataType::u8), 0, stream); });
  });
}

TEST(Collectives, OnlyWhatIsIssuedCanBeExplained) {
  on_ranks([](Communicator comm) {
    expect_error(ErrorKind::usage,
                 {through_c ? "`kind` is 8, none of weft_collective_t" : "a step of other operations"},
                 [&] { comm.explain(Collective::gather_slices, DataType::u8, 1); });
    EXPECT_FALSE(comm.explain(Collective::barrier, DataType::u8, 0).empty());
  });
}

TEST(Collectives, WrongArgumentsAreRefusedAtTheCallBeforeAnybodyWaits) {
  on_ranks([](Communicator comm) {
    Stream stream;
    std::vector<float> a(8);
    std::vector<double> b(8);
    const View f(std::span{a});
    const View d(std::span{b});
    if (!through_c) {
      expect_error(ErrorKind::usage, {"all_reduce", "8", "7"},
                   [&] { comm.all_reduce(f, f.slice(0, 7), ReduceOp::sum, stream); });
      expect_error(ErrorKind::usage, {"all_reduce", "f32", "f64"},
                   [&] { comm.all_reduce(f, d, ReduceOp::sum, stream); });
      expect_error(ErrorKind::usage, {"all_gather", text("for ", comm.size(), " ranks")},
                   [&] { comm.all_gather(f.slice(0, 3), f.slice(0, 8), stream); });
      expect_error(ErrorKind::usage, {"cuda:0"}, [&] {
        comm.all_reduce(View(a.data(), 8, DataType::f32, Device::cuda(0)), ReduceOp::sum, stream);
      });
    }
    expect_error(ErrorKind::usage, {"overlap"},
                 [&] { comm.all_reduce(f.slice(0, 4), f.slice(1, 4), ReduceOp::sum, stream); });
    expect_error(ErrorKind::usage, {"root -1"}, [&] { comm.broadcast(f, -1, stream); });
    expect_error(ErrorKind::usage, {"broadcast", text("root ", comm.size())},
                 [&] { comm.broadcast(f, comm.size(), stream); });
    expect_error(ErrorKind::usage, {"overlap"},
                 [&] { comm.all_to_all(f.slice(0, 0 + comm.size()), f.slice(0, comm.size()), stream); });
    expect_error(ErrorKind::usage, {text("peer ", comm.size())}, [&] { Group(comm).send(f, comm.size()); });
    comm.all_reduce(f, ReduceOp::sum, stream).wait();  // and the communicator is as good as before
  });
}

}  // namespace
}  // namespace weft::test
