#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "collectives/bootstrap/gathering.hpp"
#include "collectives/diagnosis/agree.hpp"
#include "collectives/network/engine/wire.hpp"
#include "collectives/network/transports.hpp"
#include "collectives/network/ucx/ucx_library.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "support/expect_error.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/collectives/store.hpp"

namespace {
bool a_worker_is_left = false;
}
/// Asked by the leak checker at the end. A worker of UCX that is left until then has memory which the checker cannot read, and it ends itself.
extern "C" int __lsan_is_turned_off();  // NOLINT(bugprone-reserved-identifier): its name
int __lsan_is_turned_off() {
  return a_worker_is_left ? 1 : 0;
}

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr const char* addresses = "connect: addresses of UCX";

/// What rank 0 is told where rank 1 introduces itself so, and does nothing more.
void expect_refused(const Outcome& introduction, ErrorKind kind, const std::string& part) {
  const auto store = make_memory_store();
  on_threads(2, [&](int rank) {
    const auto rendezvous = make_store_rendezvous(store, "ucx", rank, 2);
    if (rank == 1) {
      rendezvous->all_gather(introduction.words(), addresses, Deadline::in(30s));
      return;
    }
    test::expect_error(kind, {part}, [&] {
      make_ucx_peers(*rendezvous, Environment(Environment::Values{}), Deadline::in(30s));
    });
  });
}

TEST(UcxWire, RanksWithOtherVersionsAreRefused) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucx().ucp_get_version(&major, &minor, &release);
  const std::string own = text(major, '.', minor);
  const auto of = [](std::string note) { return Outcome::of([&] { return note; }); };
  expect_refused(of(text(major, '.', minor + 1, "\naddress")), ErrorKind::mismatch,
                 text("rank 1 has UCX ", major, '.', minor + 1, ", rank 0 has UCX ", own));
  expect_refused(of(text(own, "0\naddress")), ErrorKind::mismatch, text("rank 1 has UCX ", own, "0"));
}

TEST(UcxWire, ARankThatCannotStartUcxSaysWhyToTheOthers) {
  expect_refused(Outcome(Error(ErrorKind::system, "no device is up", "plug one in")), ErrorKind::system,
                 "rank 1 cannot use UCX: no device is up; plug one in");
}

// Rank 2 has told its address, which it takes from rank 0's, and says nothing. Rank 1 gives up first, and says whom it missed; rank 0 does not wait until
// its own deadline, and does not name rank 1.
TEST(UcxWire, WhoHasCalledOffIsNotWaitedFor) {
  a_worker_is_left = true;
  const Deadline long_after = Deadline::in(60s);
  const auto store = make_memory_store();
  on_threads(3, [&](int rank) {
    const auto rendezvous = make_store_rendezvous(store, "ucx", rank, 3);
    if (rank == 2) {
      const auto note = store->get("ucx/1/0", long_after);
      ASSERT_TRUE(note.has_value());
      (void)rendezvous->all_gather(Arrival::decode(0, *note).note, addresses, long_after);
      return;
    }
    test::expect_error(rank == 1 ? ErrorKind::timeout : ErrorKind::peer_lost,
                       {text("rank ", rank, ": "), "rank 2 was not heard"}, [&] {
                         make_ucx_peers(*rendezvous, Environment(Environment::Values{}),
                                        rank == 1 ? Deadline::in(1s) : long_after);
                       });
  });
  EXPECT_LT(long_after.waited_seconds(), 20);
}

using Bytes = std::vector<std::byte>;

void post_send(GroupWire& wire, Messages& messages, const Bytes& data, int count) {
  const auto entered = wire.enter();
  for (int i = 0; i < count; ++i) messages.send(static_cast<std::size_t>(i), data, 1 - wire.rank(), i, false);
}

// After an error the memory is its user's again. The other rank makes no progress meanwhile, as one that is stopped in the middle of a message: what UCX
// still had of it would be written, or read, later.
TEST(UcxWire, WhatIsAbandonedMayBeFreed) {
  constexpr int sends = 64;  // of a MiB: more than the connection takes at once
  const auto store = make_memory_store();
  std::atomic<int> step = 0;
  const auto until = [&](int which) {
    while (step < which) std::this_thread::sleep_for(1ms);
  };
  on_threads(2, [&](int rank) {
    const auto rendezvous = make_store_rendezvous(store, "ucx", rank, 2);
    const Deadline deadline = Deadline::in(60s);
    const auto wire = GroupWire::of_all(
        make_ucx_peers(*rendezvous, Environment(Environment::Values{}), deadline), rendezvous, deadline, 30s);
    const auto messages = wire->messages();
    if (rank == 1) {  // sends the beginning of it, and the rest when the other has left its memory
      const Bytes data(16 << 20, std::byte{1});
      {
        const auto entered = wire->enter();
        messages->send(0, data, 0, 1000, false);
      }
      step = 1;
      until(3);
      for (int i = 0; i < 2000; ++i) {
        const auto entered = wire->enter();
        (void)messages->collect();
      }
      step = 4;
      until(5);
      wire->give_up();
      messages->abandon(nullptr);
      return;
    }
    until(1);
    Bytes room(16 << 20);
    const Bytes zeros(room.size());
    const auto rooms = wire->messages();
    {
      const auto entered = wire->enter();
      rooms->receive(0, room, 1, 1000, false);
    }
    for (const Deadline soon = Deadline::in(5s); room == zeros && !soon.passed();) {
      const auto entered = wire->enter();
      (void)rooms->collect();
    }
    EXPECT_NE(room.front(), std::byte{0}) << "the message did not begin";
    EXPECT_EQ(room.back(), std::byte{0}) << "the message is there in full: nothing is tried";
    std::optional<Bytes> sent(std::in_place, 1 << 20, std::byte{2});
    post_send(*wire, *messages, *sent, sends);
    wire->give_up();
    messages->abandon(nullptr);
    rooms->abandon(nullptr);
    sent.reset();  // what UCX still read would be a report of the address sanitizer
    room = zeros;
    step = 3;
    until(4);
    for (int i = 0; i < 2000; ++i) (void)wire->side_channel().collect();
    EXPECT_TRUE(room == zeros) << "written after it was given back";
    EXPECT_FALSE(wire->losses().empty());
    step = 5;
  });
}

}  // namespace
}  // namespace weft::detail
