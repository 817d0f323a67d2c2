// Connections between ranks as threads, over loopback: at which of a rank's addresses it is reached.

#include <gtest/gtest.h>

#include <functional>

#include "collectives/diagnosis/agree.hpp"
#include "collectives/network/tcp/tcp_peers.hpp"
#include "collectives/shm/threads_backend.hpp"
#include "support/expect_error.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/collectives/store.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

/// As agree() has ranks say it.
std::string told(const std::string& note) {
  return Outcome::of([&] { return note; }).words();
}

/// Changes what ranks tell of themselves.
class ChangedRendezvous final : public Rendezvous {
 public:
  using Change = std::function<std::string(std::string note)>;
  ChangedRendezvous(std::shared_ptr<Rendezvous> real, Change change)
      : real_(std::move(real)), change_(std::move(change)) {}
  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  std::vector<std::string> all_gather(const std::string& note, const std::string& purpose,
                                      Deadline deadline) override {
    return real_->all_gather(change_(note), purpose, deadline);
  }
  std::shared_ptr<Rendezvous> split(const std::vector<int>& members) override {
    return real_->split(members);
  }
  void call_off(const Error& why) noexcept override { real_->call_off(why); }
  std::optional<Error> called_off() override { return real_->called_off(); }

 private:
  std::shared_ptr<Rendezvous> real_;
  Change change_;
};

void connect_threads(int ranks, Deadline deadline, const ChangedRendezvous::Change& change) {
  const auto store = make_memory_store();
  on_threads(ranks, [&](int rank) {
    const auto real = make_store_rendezvous(store, "tcp", rank, ranks);
    ChangedRendezvous rendezvous(real, change);
    const Environment environment(Environment::Values{{"WEFT_INTERFACE", "lo"}});
    const TcpLinks links = connect_by_tcp(rendezvous, environment, deadline);
    EXPECT_EQ(links.sockets.size(), static_cast<std::size_t>(ranks - 1));
    EXPECT_FALSE(links.sockets.contains(rank));
    real->all_gather("", "end of the test", Deadline::in(60s));
  });
}

/// A secret, a port, then addresses.
std::string with_first_address(const std::string& note, const std::string& address) {
  const std::size_t end_of_port = note.find(' ', note.find(' ') + 1);
  return note.substr(0, end_of_port) + " " + address + note.substr(end_of_port);
}

TEST(TcpLinks, MoreRanksThanAreCalledAtATimeAreAllConnected) {
  connect_threads(40, Deadline::in(60s), [](std::string note) { return note; });
}

TEST(TcpLinks, ARankIsReachedAtItsNextAddressWhereTheFirstFails) {
  const std::string fails_at_once = "255.255.255.255";
  connect_threads(3, Deadline::in(60s),
                  [&](const std::string& note) { return with_first_address(note, fails_at_once); });
}

// Rank 2 has told where it listens, and calls nobody. Rank 1 gives up first, and says whom it missed; rank 0 does not wait until its own
// deadline, and does not name rank 1.
TEST(TcpLinks, WhoHasCalledOffIsNotWaitedFor) {
  const Deadline long_after = Deadline::in(60s);
  const auto store = make_memory_store();
  const Environment environment(Environment::Values{{"WEFT_INTERFACE", "lo"}});
  on_threads(3, [&](int rank) {
    ChangedRendezvous rendezvous(make_store_rendezvous(store, "tcp", rank, 3),
                                 [](std::string note) { return note; });
    if (rank == 2) {
      (void)rendezvous.all_gather(told(std::string(64, 'a') + " 9 127.0.0.1"), "connect: addresses for TCP",
                                  long_after);
      return;
    }
    const auto connect = [&] {
      (void)connect_by_tcp(rendezvous, environment, rank == 1 ? Deadline::in(1s) : long_after);
    };
    test::expect_error(rank == 1 ? ErrorKind::timeout : ErrorKind::peer_lost,
                       {text("rank ", rank, ": "), "were not made within 1 s: rank 2 did not call"}, connect);
  });
  EXPECT_LT(long_after.waited_seconds(), 20);
}

TEST(TcpLinks, WhoIsNotReachedIsNamedWithAllItsAddresses) {
  const auto nowhere = [](const std::string& note) {
    return note.substr(0, note.find(' ')) + " 9 255.255.255.255 255.255.255.254";
  };
  test::expect_error(
      ErrorKind::timeout,
      {"were not made within", "rank 1 listens at", "rank 0 was not reached at 255.255.255.255 port 9"}, [&] {
        const auto store = make_memory_store();
        on_threads(2, [&](int rank) {
          ChangedRendezvous rendezvous(make_store_rendezvous(store, "tcp", rank, 2), nowhere);
          if (rank == 0) {
            (void)rendezvous.all_gather(told(std::string(64, 'a') + " 9"), "connect: addresses for TCP",
                                        Deadline::in(60s));
            return;
          }
          const Environment environment(Environment::Values{{"WEFT_INTERFACE", "lo"}});
          (void)connect_by_tcp(rendezvous, environment, Deadline::in(300ms));
        });
      });
}

}  // namespace
}  // namespace weft::detail
