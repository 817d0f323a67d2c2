#include "weft/collectives/store.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "meeting_places.hpp"
#include "support/expect_error.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::expect_error;
using test::MeetingPlace;

class EveryStore : public test::AtEveryPlace {};

TEST_P(EveryStore, ShowsEveryRankWhatEveryRankHasSet) {
  test::on_ranks(4, [&](int rank) {
    const auto store = place().open(rank);
    store->set("from/" + std::to_string(rank), std::string(static_cast<std::size_t>(rank), 'x'));
    for (int other = 0; other < 4; ++other) {
      EXPECT_EQ(store->get("from/" + std::to_string(other), Deadline::in(20s)),
                std::string(static_cast<std::size_t>(other), 'x'));
    }
  });
}

TEST_P(EveryStore, KeepsAnyBytesUnchanged) {
  const auto store = place().open(0);
  std::string bytes(1 << 20, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31);
  const std::string key("k\0\n/ \xff", 6);
  store->set(key, bytes);
  EXPECT_EQ(store->get(key, Deadline::in(10s)), bytes);
  store->set("empty", "");
  EXPECT_EQ(store->get("empty", Deadline::in(10s)), "");
}

TEST_P(EveryStore, AnswersNothingAtTheDeadlineAndAtOnceWhenItHasPassed) {
  const auto store = place().open(0);
  const Deadline begin = Deadline::in(0s);
  EXPECT_EQ(store->get("absent", begin), std::nullopt);
  EXPECT_LT(begin.waited_seconds(), 20);
  const Deadline later = Deadline::in(200ms);
  EXPECT_EQ(store->get("absent", later), std::nullopt);
  EXPECT_GE(later.waited_seconds(), 0.2);
}

TEST_P(EveryStore, WakesAGetThatWaitsForEverWhenTheKeyComes) {
  const auto store = place().open(0);
  std::thread late([&] {
    std::this_thread::sleep_for(100ms);
    store->set("late", "now");  // through the object in which the get waits
  });
  EXPECT_EQ(store->get("late", Deadline::never()), "now");
  late.join();
}

TEST_P(EveryStore, TakesAKeyTwiceOnlyWithTheSameValue) {
  const auto store = place().open(0);
  store->set("key", "value");
  store->set("key", "value");
  expect_error(ErrorKind::usage, {"'key' was set before to another value"},
               [&] { store->set("key", "other"); });
  EXPECT_EQ(store->get("key", Deadline::in(20s)), "value");
}

TEST_P(EveryStore, RefusesKeysAndValuesBeyondItsLimits) {
  const auto store = place().open(0);
  expect_error(ErrorKind::usage, {"0 bytes", "1 to 4096"}, [&] { store->set("", "value"); });
  expect_error(ErrorKind::usage, {"4097 bytes"}, [&] { store->set(std::string(4097, 'k'), ""); });
  expect_error(ErrorKind::usage, {"16777217 bytes"},
               [&] { store->set("k", std::string((16 << 20) + 1, 'v')); });
}

class StoreOfProcesses : public EveryStore {};

TEST_P(StoreOfProcesses, KnowsWhoHasLeft) {
  const auto rank_0 = place().open(0);
  const auto rank_7 = place().open(7);
  auto rank_2 = place().open(2);
  EXPECT_EQ(rank_0->gone(), std::vector<int>{});
  rank_2.reset();
  const auto is_gone = [&](Store& store) {
    for (int i = 0; i < 1000 && store.gone().empty(); ++i) std::this_thread::sleep_for(10ms);
    return store.gone();
  };
  EXPECT_EQ(is_gone(*rank_0), std::vector<int>{2});
  EXPECT_EQ(is_gone(*rank_7), std::vector<int>{2});
}

INSTANTIATE_TEST_SUITE_P(Stores, EveryStore, testing::ValuesIn(test::all_places()), test::place_name);
INSTANTIATE_TEST_SUITE_P(Stores, StoreOfProcesses, testing::ValuesIn(test::places_of_processes()),
                         test::place_name);

// --- files

class FileStore : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/store";
};

TEST_F(FileStore, IsGoneWhenRankZerosStoreEnds) {
  auto owner = make_file_store(path_, 0);
  const auto joined = make_file_store(path_, 1);
  owner->set("key", "value");
  owner.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_EQ(joined->get("key", Deadline::in(20s)), "value") << "a rank that is still reading loses nothing";
}

TEST_F(FileStore, RefusesAPathThatExists) {
  std::ofstream(path_) << "something";
  expect_error(ErrorKind::usage, {path_ + " exists", "a path of its own"},
               [&] { make_file_store(path_, 0); });
  expect_error(ErrorKind::usage, {path_ + " is not a file that ranks meet in"},
               [&] { make_file_store(path_, 1); });
  EXPECT_TRUE(std::filesystem::exists(path_)) << "it is not ours to remove";
}

TEST_F(FileStore, DoesNotJoinARunWhoseRankZeroIsGone) {
  const std::string kept = folder_.path() + "/kept";
  {
    const auto earlier = make_file_store(path_, 0);
    earlier->set("key", "stale");
    std::filesystem::create_hard_link(path_, kept);
  }
  std::filesystem::rename(kept, path_);  // as if rank 0 had been killed
  expect_error(ErrorKind::usage, {path_ + " was left by a run whose rank 0 is gone"},
               [&] { make_file_store(path_, 1); });
  expect_error(ErrorKind::usage, {"exists"}, [&] { make_file_store(path_, 0); });
}

TEST_F(FileStore, WaitsForRankZeroUntilTheDeadline) {
  expect_error(ErrorKind::timeout, {"rank 1", "rank 0 did not create " + path_, "0.2 s"},
               [&] { make_file_store(path_, 1, Deadline::in(200ms)); });
  std::shared_ptr<Store> joined;
  std::thread early([&] { joined = make_file_store(path_, 1, Deadline::in(20s)); });
  std::this_thread::sleep_for(50ms);
  const auto owner = make_file_store(path_, 0);
  early.join();
  owner->set("key", "value");
  EXPECT_EQ(joined->get("key", Deadline::in(10s)), "value");
}

TEST_F(FileStore, CutsOffWhatAKilledWriterLeft) {
  const auto owner = make_file_store(path_, 0);
  const auto joined = make_file_store(path_, 1);
  owner->set("first", "1");
  const auto whole = std::filesystem::file_size(path_);
  owner->set("second", "2");
  const auto record = std::filesystem::file_size(path_) - whole;
  std::string bytes(record, '\0');
  std::ifstream(path_, std::ios::binary)
      .seekg(static_cast<std::streamoff>(whole))
      .read(bytes.data(), static_cast<std::streamsize>(record));
  for (std::uintmax_t part = 1; part < record; ++part) {
    std::ofstream(path_, std::ios::binary | std::ios::app)
        .write(bytes.data(), static_cast<std::streamsize>(part));
    EXPECT_EQ(joined->get("absent", Deadline::in(0s)), std::nullopt);
    const std::string key = "after " + std::to_string(part);
    joined->set(key, "3");
    EXPECT_EQ(owner->get(key, Deadline::in(10s)), "3");
  }
}

TEST_F(FileStore, NamesAFolderThatIsNotThere) {
  expect_error(ErrorKind::usage, {"/nowhere/store", "No such file"},
               [&] { make_file_store(folder_.path() + "/nowhere/store", 0); });
}

TEST(OpenStore, TakesOnlyAddressesItCanMeetAt) {
  for (const char* bad : {"", "mpi", "http://a:1", "tcp://", "tcp://a", "tcp://:1", "tcp://a:", "tcp://a:b",
                          "tcp://a:1x", "tcp://::1:29500", "file://", "/tmp/store"}) {
    expect_error(ErrorKind::usage, {std::string("'") + bad + "'", "tcp://HOST:PORT", "file://PATH"},
                 [&] { open_store(bad, 0, Deadline::in(1s)); });
  }
  if (!test::has_tcp()) return;
  for (const char* bad : {"tcp://a:0", "tcp://a:70000", "tcp://a:-1"}) {
    expect_error(ErrorKind::usage, {"port from 1 to 65535"}, [&] { open_store(bad, 0, Deadline::in(1s)); });
  }
}

}  // namespace
}  // namespace weft
