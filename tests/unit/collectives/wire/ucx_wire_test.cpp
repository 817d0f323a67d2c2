#include "collectives/ucx/ucx_wire.hpp"

#include <gtest/gtest.h>

#include "collectives/bootstrap/gathering.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "collectives/ucx/ucx_library.hpp"
#include "support/expect_error.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/collectives/store.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr const char* addresses = "connect: addresses of UCX";

/// What rank 0 is told where rank 1 introduces itself so, and does nothing more.
void expect_refused(const std::string& introduction, ErrorKind kind, const std::string& part) {
  const auto store = make_memory_store();
  on_threads(2, [&](int rank) {
    const auto rendezvous = make_store_rendezvous(store, "ucx", rank, 2);
    if (rank == 1) {
      rendezvous->all_gather(introduction, addresses, Deadline::in(30s));
      return;
    }
    test::expect_error(kind, {part}, [&] {
      make_ucx_wire(rendezvous, Environment(Environment::Values{}), Deadline::in(30s), 30s);
    });
  });
}

TEST(UcxWire, RanksWithOtherVersionsAreRefused) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucx().ucp_get_version(&major, &minor, &release);
  const std::string own = text(major, '.', minor);
  expect_refused(text(major, '.', minor + 1, "\naddress"), ErrorKind::mismatch,
                 text("rank 1 has UCX ", major, '.', minor + 1, ", rank 0 has UCX ", own));
  expect_refused(text(own, "0\naddress"), ErrorKind::mismatch, text("rank 1 has UCX ", own, "0"));
}

TEST(UcxWire, ARankThatCannotStartUcxSaysWhyToTheOthers) {
  expect_refused("none\nno device is up\nplug one in", ErrorKind::system,
                 "rank 1 cannot use UCX: no device is up; plug one in");
}

// Rank 2 has told its address, which it takes from rank 0's, and says nothing. Rank 1 gives up first, and says whom it missed; rank 0 does not wait until
// its own deadline, and does not name rank 1.
TEST(UcxWire, WhoHasCalledOffIsNotWaitedFor) {
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
                         make_ucx_wire(rendezvous, Environment(Environment::Values{}),
                                       rank == 1 ? Deadline::in(1s) : long_after, 30s);
                       });
  });
  EXPECT_LT(long_after.waited_seconds(), 20);
}

}  // namespace
}  // namespace weft::detail
