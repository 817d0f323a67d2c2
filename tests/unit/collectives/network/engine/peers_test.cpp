#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <random>
#include <thread>

// Every transport brings messages, acknowledgements and notes, and says who is gone.

#include "collectives/network/engine/wire.hpp"
#include "collectives/network/transports.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "support/ranks_on_nodes.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/collectives/store.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

struct Row {
  const char* name;
  PeersMaker* make;
  const char* lost;  ///< what is said of a rank that has ended
};

class EveryPeers : public testing::TestWithParam<Row> {
 protected:
  std::shared_ptr<GroupWire> wire(const std::shared_ptr<Rendezvous>& rendezvous) const {
    const Environment environment(Environment::Values{{"WEFT_INTERFACE", "lo"}});
    const Deadline deadline = Deadline::in(30s);
    return GroupWire::of_all(GetParam().make(*rendezvous, environment, deadline), rendezvous, deadline, 30s);
  }
  /// Ranks as threads, each with its end of the wire.
  void on_wire(int ranks, const std::function<void(GroupWire&)>& body) const {
    const auto store = make_memory_store();
    on_threads(ranks, [&](int rank) {
      const auto rendezvous = make_store_rendezvous(store, "wire", rank, ranks);
      const auto own = wire(rendezvous);
      body(*own);
      rendezvous->all_gather("", "end of the test", Deadline::in(60s));
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, EveryPeers,
                         testing::Values(Row{"tcp", make_tcp_peers, "its connection has closed"}),
                         [](const auto& of) { return std::string(of.param.name); });

/// So many that end, by label.
std::map<std::size_t, Messages::Ended> take(GroupWire& wire, Messages& messages, std::size_t count) {
  std::map<std::size_t, Messages::Ended> all;
  for (const Deadline deadline = Deadline::in(60s); all.size() < count && !deadline.passed();) {
    {
      const auto entered = wire.enter();
      for (const Messages::Ended& one : messages.collect()) all[one.label] = one;
    }
    wire.rest(100us);
  }
  EXPECT_EQ(all.size(), count);
  return all;
}

Bytes pattern(int from, int to, int number, std::size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(from * 1'000'003 + to * 1009 + number));
  Bytes data(bytes);
  for (std::byte& one : data) one = static_cast<std::byte>(random());
  return data;
}

/// The same on both sides: how long message `number` between two ranks is.
std::size_t length_of(int from, int to, int number) {
  constexpr std::array<std::size_t, 8> lengths{0, 1, 15, 16, 17, 4096, 60 << 10, 300'000};
  return lengths[static_cast<std::size_t>(from * 31 + to * 17 + number * 7) % lengths.size()];
}

TEST_P(EveryPeers, BringsEveryMessageInOrderWheneverItsReceiverIsReady) {
  constexpr int ranks = 3;
  constexpr int messages_each = 60;
  constexpr int tags = 4;
  on_wire(ranks, [](GroupWire& wire) {
    const auto messages = wire.messages();
    std::mt19937 random(static_cast<unsigned>(wire.rank()));
    std::map<std::pair<int, int>, Bytes> sent;
    std::map<std::pair<int, int>, Bytes> received;
    std::size_t under_way = 0;
    std::size_t label = 0;
    std::map<std::size_t, std::size_t> lengths;
    for (int number = 0; number < messages_each; ++number) {
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == wire.rank()) continue;
        const bool is_part = number % 2 == 0;
        Bytes& out = sent[{peer, number}] =
            pattern(wire.rank(), peer, number, length_of(wire.rank(), peer, number));
        Bytes& in = received[{peer, number}];
        in.resize(length_of(peer, wire.rank(), number));
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
        const auto entered = wire.enter();
        messages->send(label, out, peer, number % tags, is_part);
        lengths[label++] = out.size();
        messages->receive(label, in, peer, number % tags, is_part);
        lengths[label++] = in.size();
        under_way += 2;
      }
    }
    for (const auto& [which, ended] : take(wire, *messages, under_way)) {
      EXPECT_EQ(ended.lost, "");
      EXPECT_FALSE(ended.was_longer);
      EXPECT_EQ(ended.bytes, lengths[which]);
    }
    for (const auto& [from, data] : received) {
      EXPECT_EQ(data, pattern(from.first, wire.rank(), from.second, data.size()))
          << "from rank " << from.first << ", message " << from.second;
    }
  });
}

TEST_P(EveryPeers, KeepsAMessageForWhichThereIsNoRoomYet) {
  on_wire(2, [](GroupWire& wire) {
    const auto messages = wire.messages();
    const Bytes data = pattern(0, 1, 0, 500'000);
    Bytes room(data.size());
    if (wire.rank() == 0) {
      const auto entered = wire.enter();
      messages->send(0, data, 1, 7, false);
    } else {
      for (int i = 0; i < 50; ++i) {  // it comes, in part or whole
        const auto entered = wire.enter();
        EXPECT_TRUE(messages->collect().empty());
        std::this_thread::sleep_for(100us * (i % 3));
      }
      const auto entered = wire.enter();
      messages->receive(0, room, 0, 7, false);
    }
    (void)take(wire, *messages, 1);
    if (wire.rank() == 1) {
      EXPECT_EQ(room, data);
    }
  });
}

TEST_P(EveryPeers, SaysWhichMessageWasLongerThanItsRoomAndGoesOn) {
  on_wire(2, [](GroupWire& wire) {
    const auto messages = wire.messages();
    const Bytes data = pattern(0, 1, 0, 100'000);
    Bytes less(99'999);
    Bytes right(data.size());
    {
      const auto entered = wire.enter();
      for (std::size_t i = 0; i < 2; ++i) {
        if (wire.rank() == 0) {
          messages->send(i, data, 1, 3, false);
        } else {
          messages->receive(i, i == 0 ? less : right, 0, 3, false);
        }
      }
    }
    const auto ended = take(wire, *messages, 2);
    if (wire.rank() == 0) return;
    EXPECT_TRUE(ended.at(0).was_longer);
    EXPECT_FALSE(ended.at(1).was_longer);
    EXPECT_EQ(right, data);
  });
}

TEST_P(EveryPeers, APartEndsNotBeforeItsReceiverWantsIt) {
  on_wire(2, [](GroupWire& wire) {
    const auto messages = wire.messages();
    const Bytes data(10);
    Bytes room(10);
    if (wire.rank() == 0) {
      {
        const auto entered = wire.enter();
        messages->send(0, data, 1, 1, true);
      }
      for (int i = 0; i < 20; ++i) {
        const auto entered = wire.enter();
        EXPECT_TRUE(messages->collect().empty());
        std::this_thread::sleep_for(1ms);
      }
      wire.side_channel().post("now");
    } else {
      while (wire.side_channel().collect().empty()) wire.rest(1ms);
      const auto entered = wire.enter();
      messages->receive(0, room, 0, 1, true);
    }
    (void)take(wire, *messages, 1);
  });
}

// After an error: what was under way goes on without its memory.
TEST_P(EveryPeers, WhatIsAbandonedMayBeFreed) {
  constexpr int sends = 8;  // of a MiB: more than the connection takes at once
  std::atomic<bool> is_overwritten = false;
  std::atomic<bool> is_read = false;
  on_wire(2, [&](GroupWire& wire) {
    const Bytes first = pattern(0, 1, 1, 300'000);
    const Bytes later = pattern(0, 1, 2, 1000);
    const auto messages = wire.messages();
    if (wire.rank() == 0) {
      {
        const auto entered = wire.enter();
        messages->send(0, first, 1, 1, false);
        messages->send(1, later, 1, 2, false);
      }
      (void)take(wire, *messages, 2);
      while (wire.side_channel().collect().empty()) wire.rest(1ms);
      {
        const auto entered = wire.enter();
        messages->send(0, first, 1, 3, false);
        messages->send(1, later, 1, 4, false);
      }
      (void)take(wire, *messages, 2);
      while (!is_overwritten) std::this_thread::sleep_for(1ms);
      std::vector<Bytes> rooms(sends, Bytes(1 << 20));
      for (int i = 0; i < sends; ++i) {
        const auto entered = wire.enter();
        messages->receive(static_cast<std::size_t>(i), rooms[static_cast<std::size_t>(i)], 1, 10 + i, false);
      }
      (void)take(wire, *messages, sends);
      is_read = true;
      for (int i = 0; i < sends; ++i)
        EXPECT_TRUE(rooms[static_cast<std::size_t>(i)] == pattern(1, 0, i, 1 << 20)) << i;
      return;
    }
    const Bytes zeros(first.size());
    Bytes half(first.size());
    Bytes none(first.size());
    {
      const auto entered = wire.enter();
      messages->receive(0, half, 0, 1, false);
      messages->receive(1, none, 0, 3, false);
    }
    const auto has_begun = [&] { return half != zeros; };
    while (!has_begun()) {
      const auto entered = wire.enter();
      if (!messages->collect().empty()) break;  // it came in one piece
    }
    messages->abandon(nullptr);
    half = zeros;
    const auto others = wire.messages();
    Bytes room(later.size());
    const auto takes = [&](int tag) {
      {
        const auto entered = wire.enter();
        others->receive(0, room, 0, tag, false);
      }
      (void)take(wire, *others, 1);
      EXPECT_EQ(room, later);
    };
    takes(2);
    wire.side_channel().post("abandoned");
    takes(4);
    EXPECT_TRUE(half == zeros && none == zeros);

    std::vector<Bytes> sent;
    for (int i = 0; i < sends; ++i) sent.push_back(pattern(1, 0, i, 1 << 20));
    const auto last = wire.messages();
    for (int i = 0; i < sends; ++i) {
      const auto entered = wire.enter();
      last->send(static_cast<std::size_t>(i), sent[static_cast<std::size_t>(i)], 0, 10 + i, false);
    }
    last->abandon(nullptr);
    sent.clear();
    is_overwritten = true;
    while (!is_read) {
      (void)wire.side_channel().collect();
      wire.rest(1ms);
    }
  });
}

TEST_P(EveryPeers, TellsWhoWaitsForARankThatHasGivenUpAfterWhatItSaid) {
  const auto store = make_memory_store();
  on_threads(2, [&](int rank) {
    const auto rendezvous = make_store_rendezvous(store, "wire", rank, 2);
    auto wire = this->wire(rendezvous);
    if (rank == 1) {
      wire->side_channel().post("why");
      wire->give_up();
      wire.reset();
      rendezvous->all_gather("", "end of the test", Deadline::in(60s));
      return;
    }
    const auto messages = wire->messages();
    Bytes room(10);
    {
      const auto entered = wire->enter();
      messages->receive(0, room, 1, 0, false);
    }
    EXPECT_EQ(take(*wire, *messages, 1).at(0).lost, GetParam().lost);
    const auto said = wire->side_channel().collect();
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(said[0].body, "why");
    rendezvous->all_gather("", "end of the test", Deadline::in(60s));
  });
}

TEST_P(EveryPeers, CarriesACollectiveBetweenNodesWhenItIsAskedFor) {
  test::run_on_nodes({"a", "b", "b"},
                     [](Communicator comm) {
                       Buffer data = comm.allocate(DataType::f32, 100'000);
                       std::ranges::fill(data.as<float>(), static_cast<float>(comm.rank()));
                       Stream stream;
                       comm.all_reduce(data.view(), ReduceOp::sum, stream).wait();
                       EXPECT_TRUE(std::ranges::all_of(data.as<float>(), [](float one) { return one == 3; }));
                       std::string wire = GetParam().name;
                       std::ranges::transform(wire, wire.begin(),
                                              [](char one) { return static_cast<char>(std::toupper(one)); });
                       EXPECT_EQ(comm.backend(), "host (shared memory + " + wire + ")");
                     },
                     {{"WEFT_TRANSPORT", GetParam().name}});
}

}  // namespace
}  // namespace weft::detail
