// The wire of a group over a transport: who is called by which number and tag, and what ends when.

#include "collectives/network/engine/wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>

#include "support/expect_error.hpp"
#include "support/fake_peers.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;
using test::FakePeers;

// Between a plan and the network there is one virtual interface, the transport's.
static_assert(!std::is_polymorphic_v<GroupWire> && !std::is_polymorphic_v<Messages>);
static_assert(std::is_polymorphic_v<Peers>);

/// Where all say the same as this rank.
class Agreement final : public Rendezvous {
 public:
  Agreement(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> all_gather(const std::string& note, const std::string&, Deadline) override {
    return std::vector(static_cast<std::size_t>(size_), note);
  }
  std::shared_ptr<Rendezvous> split(const std::vector<int>&) override { return nullptr; }

 private:
  int rank_;
  int size_;
};

/// Has communicators of its own, as MPI has: their ranks are numbered anew, and tags have 15 bits.
class PeersWithGroups final : public FakePeers {
 public:
  using FakePeers::FakePeers;
  void begin_group(RankGroup& group, const std::shared_ptr<Rendezvous>&, Deadline) override {
    for (std::size_t i = 0; i < group.ranks.size(); ++i) group.ranks[i] = static_cast<int>(i);
    group.largest_tag = 32767;
    group.own = std::make_shared<int>(++communicators);
  }
  int communicators = 0;
};

template <class Transport = FakePeers>
struct World {
  World(int rank, int size)
      : peers(std::make_shared<Transport>(rank, size)),
        wire(GroupWire::of_all(peers, std::make_shared<Agreement>(rank, size), Deadline::in(1s), 1s)) {}
  std::shared_ptr<Transport> peers;
  std::shared_ptr<GroupWire> wire;
};

std::array<std::byte, 16> memory;

TEST(GroupWire, AGroupsMessagesHaveItsNumberAndTheRanksOfTheWorldInTheirTags) {
  World world(5, 8);
  const auto group = world.wire->split({6, 5, 1}, std::make_shared<Agreement>(1, 3));
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 3);
  const auto messages = group->messages();
  messages->send(7, memory, 2, 99, false);
  messages->receive(8, memory, 0, 99, false);
  ASSERT_EQ(world.peers->posted.size(), 2U);
  EXPECT_EQ(world.peers->posted[0].slot->peer, 1);
  EXPECT_EQ(world.peers->posted[0].tag, whole_tag(1, 5, 99));
  EXPECT_EQ(world.peers->posted[1].slot->peer, 6);
  EXPECT_EQ(world.peers->posted[1].tag, whole_tag(1, 6, 99));
  EXPECT_EQ(tag_of_exchange(world.peers->posted[1].tag), 99);
}

TEST(GroupWire, ATransportMayNumberAGroupsRanksAndBoundItsTags) {
  World<PeersWithGroups> world(5, 8);
  const auto group = world.wire->split({6, 5, 1}, std::make_shared<Agreement>(1, 3));
  const auto within = group->split({2, 1}, std::make_shared<Agreement>(1, 2));
  EXPECT_EQ(world.peers->communicators, 3);
  EXPECT_EQ(within->largest_tag(), 32767);
  const auto messages = group->messages();
  messages->send(0, memory, 2, 99, false);
  const auto further = within->messages();
  further->send(0, memory, 0, 99, false);
  EXPECT_EQ(world.peers->posted[0].slot->peer, 2);
  EXPECT_EQ(*static_cast<int*>(world.peers->posted[0].slot->all->group.own.get()), 2);
  EXPECT_EQ(world.peers->posted[1].slot->peer, 0);
  EXPECT_EQ(*static_cast<int*>(world.peers->posted[1].slot->all->group.own.get()), 3);
}

TEST(GroupWire, APartEndsWhenItIsSentAndAcknowledgedWhicheverIsFirst) {
  World world(0, 2);
  const auto messages = world.wire->messages();
  messages->send(1, memory, 1, 5, true);
  messages->send(2, memory, 1, 6, true);
  messages->send(3, memory, 1, 7, false);
  const auto ended = [&] {
    std::vector<std::size_t> labels;
    for (const Messages::Ended& one : messages->collect()) labels.push_back(one.label);
    return labels;
  };
  world.peers->acknowledged(whole_tag(0, 1, 5));
  Messages::step(*world.peers->posted[1].slot);
  EXPECT_EQ(ended(), std::vector<std::size_t>{});
  Messages::step(*world.peers->posted[0].slot);
  EXPECT_EQ(ended(), std::vector<std::size_t>{1});
  world.peers->acknowledged(whole_tag(0, 1, 6));
  Messages::step(*world.peers->posted[2].slot);
  EXPECT_EQ(ended(), (std::vector<std::size_t>{2, 3}));
}

TEST(GroupWire, WhatIsUnderWayWithARankThatIsLostEndsWithTheFirstReason) {
  World world(0, 4);
  const auto group = world.wire->split({0, 3}, std::make_shared<Agreement>(0, 2));
  const auto messages = group->messages();
  messages->receive(4, memory, 1, 5, false);
  world.peers->lose(2, "of another group");
  EXPECT_TRUE(messages->collect().empty());
  EXPECT_TRUE(group->losses().empty());
  world.peers->lose(3, "closed");
  world.peers->lose(3, "and so on");
  const auto ended = messages->collect();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].label, 4U);
  EXPECT_EQ(ended[0].lost, "closed");
  EXPECT_EQ(group->losses(), (std::vector<std::pair<int, std::string>>{{1, "closed"}}));
}

TEST(GroupWire, WhatIsAbandonedIsCanceledAndItsMemoryKeptByTheTransport) {
  World world(0, 2);
  const auto kept = std::make_shared<int>(0);
  {
    const auto messages = world.wire->messages();
    messages->receive(0, memory, 1, 5, false);
    messages->receive(1, memory, 1, 6, false);
    Messages::step(*world.peers->posted[0].slot);
    messages->abandon(kept);
  }
  EXPECT_EQ(world.peers->canceled, std::vector<const MessageSlot*>{world.peers->posted[1].slot});
  EXPECT_EQ(world.peers->posted[1].slot->label, 1U);  // the transport may still step it
  EXPECT_EQ(kept.use_count(), 2);
}

TEST(GroupWire, NotesGoToTheOthersOfTheGroupAndComeByItsRanks) {
  World world(5, 8);
  const auto group = world.wire->split({6, 5, 1}, std::make_shared<Agreement>(1, 3));
  group->side_channel().post("hello");
  EXPECT_EQ(world.peers->notes, (std::vector<FakePeers::Note>{{1, 6, "hello"}, {1, 1, "hello"}}));
  world.peers->keep_note(1, {1, "from the third"});
  world.peers->keep_note(1, {7, "from a stranger"});
  world.peers->keep_note(0, {6, "to all"});
  const auto heard = group->side_channel().collect();
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].rank, 2);
  EXPECT_EQ(heard[0].body, "from the third");
  EXPECT_TRUE(group->side_channel().collect().empty());
  EXPECT_EQ(world.wire->side_channel().collect().size(), 1U);
}

TEST(GroupWire, ATransportWithoutCollectivesOfItsOwnRefusesThem) {
  World world(0, 2);
  test::expect_error(ErrorKind::usage, {"all_reduce is to be carried out by MPI, but fake carries the data"},
                     [&] { (void)world.wire->own_collective({.kind = Collective::all_reduce}, 1s); });
}

TEST(GroupWire, MoreRanksThanATagTellsApartAreRefused) {
  test::expect_error(ErrorKind::usage, {"65537 ranks are more than weft's tags over fake tell apart"},
                     [] { World(0, (1 << rank_bits) + 1); });
}

}  // namespace
}  // namespace weft::detail
