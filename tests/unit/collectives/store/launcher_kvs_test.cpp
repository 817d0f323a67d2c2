// Ranks that find each other through the words of their launcher: a map that stands for it, and torchrun's agent, whose store is acted
// out here as its source has it. PMIx itself: tests/launch.

#include "collectives/store/launcher_kvs.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "meeting_places.hpp"
#include "support/expect_error.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

class Words : public detail::LauncherKvs {
 public:
  void put(const std::string& key, const std::string& value, Deadline /*deadline*/) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::optional<std::string> get(const std::string& key, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.end(), [&] { return values_.contains(key); });
    return values_.contains(key) ? std::optional(values_[key]) : std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

const std::string here = "lo";
const std::string digits(64, 'a');

class ThroughALauncher : public testing::Test {
 protected:
  std::shared_ptr<Store> open(int rank, const StoreOptions& options = {},
                              Deadline deadline = Deadline::in(20s)) {
    return detail::open_store_through(words_, "weft.1", rank, deadline, options, here);
  }
  /// Three ranks, of which rank 2 is heard by the others.
  void meet(const StoreOptions& options) {
    test::on_ranks(3, [&](int rank) {
      const auto store = open(rank, options);
      if (rank == 2) store->set("key", "value");
      EXPECT_EQ(store->get("key", Deadline::in(20s)), "value");
      store->set(text("done", rank), "");
      for (int other = 0; rank == 0 && other < 3; ++other) store->get(text("done", other), Deadline::in(20s));
    });
  }

  Words words_;
};

TEST_F(ThroughALauncher, RanksMeetAtAPortThatNobodyChose) {
  meet({});
}

TEST_F(ThroughALauncher, ATokenOfTheJobIsNotLeftWithTheLauncher) {
  const StoreOptions options{.token = "0123456789abcdef0123456789abcdef"};
  meet(options);
  EXPECT_EQ(words_.get("weft.1", Deadline::in(1s))->find(options.token), std::string::npos);
  const auto rank_0 = open(0, options);
  expect_error(ErrorKind::usage, {"rank 0 at 127.0.0.1", "has another token than this process"},
               [&] { open(1, {.token = "another token of sixteen bytes"}, Deadline::in(500ms)); });
}

// Rank 0 goes once it has refused rank 1, whose later tries find nobody.
TEST_F(ThroughALauncher, ARankThatWasRefusedSaysSoThoughItsLastTryIsCutShort) {
  auto rank_0 = open(0, {.token = "0123456789abcdef0123456789abcdef"});
  std::promise<void> refused;
  std::atomic<bool> told = false;
  log::set_sink([&](log::Level, std::string_view line) {
    if (line.find("its token is not this job's") != std::string_view::npos && !told.exchange(true))
      refused.set_value();
  });
  std::thread goes([&] {
    refused.get_future().wait();
    rank_0.reset();
  });
  expect_error(ErrorKind::usage, {"has another token than this process"},
               [&] { open(1, {.token = "another token of sixteen bytes"}, Deadline::in(3s)); });
  log::set_sink(nullptr);
  if (!told.exchange(true)) refused.set_value();
  goes.join();
}

TEST_F(ThroughALauncher, WordsOfAStartBeforeAreReadAgain) {
  words_.put("weft.1", text(digits, " ", test::free_port(), " 127.0.0.1"), Deadline::in(1s));
  std::thread rank_0([&] {
    std::this_thread::sleep_for(500ms);
    const auto store = open(0);
    EXPECT_EQ(store->get("key", Deadline::in(20s)), "value");
  });
  open(1)->set("key", "value");
  rank_0.join();
}

// Where rank 0 of an attempt before was, its port is another job's today, or a program's that is no rank.
TEST_F(ThroughALauncher, WordsThatLeadToAnotherAreReadAgain) {
  const auto other =
      detail::listen_tcp_store("127.0.0.1", Deadline::in(20s), {.token = std::string(64, 'b')});
  const int strange_port = test::free_port();
  const test::Parrot parrot(strange_port);
  for (const int port : {other.port, strange_port}) {
    words_.put("weft.1", text(digits, " ", port, " 127.0.0.1"), Deadline::in(1s));
    std::thread rank_0([&] {
      std::this_thread::sleep_for(300ms);
      const auto store = open(0);
      EXPECT_EQ(store->get("key", Deadline::in(20s)), "value");
    });
    open(1)->set("key", "value");
    rank_0.join();
  }
}

// A machine that is gone answers nothing, and rank 0 begins again on another one meanwhile.
TEST_F(ThroughALauncher, WordsThatChangeWhileACallWaitsAreReadAgain) {
  words_.put("weft.1", text(digits, " 4711 192.0.2.1"), Deadline::in(1s));
  std::thread rank_0([&] {
    std::this_thread::sleep_for(300ms);
    const auto store = open(0);
    EXPECT_EQ(store->get("key", Deadline::in(20s)), "value");
  });
  open(1)->set("key", "value");
  rank_0.join();
}

// 192.0.2.1 is nobody's (RFC 5737), and nothing listens at 127.0.0.2.
TEST_F(ThroughALauncher, EachAddressOfRankZeroIsTried) {
  const auto rank_0 = detail::listen_tcp_store("127.0.0.1", Deadline::in(20s), {.token = digits});
  words_.put("weft.1", text(digits, " ", rank_0.port, " 192.0.2.1 127.0.0.2 127.0.0.1"), Deadline::in(1s));
  const Deadline deadline = Deadline::in(20s);
  const auto rank_1 = open(1, {}, deadline);
  EXPECT_LT(deadline.waited_seconds(), 10);
  rank_1->set("key", "value");
  EXPECT_EQ(rank_0.store->get("key", Deadline::in(20s)), "value");
}

TEST_F(ThroughALauncher, RankZeroThatDoesNotComeIsNamed) {
  expect_error(ErrorKind::timeout, {"rank 1: rank 0 did not say where it listens within 0.2 s"},
               [&] { open(1, {}, Deadline::in(200ms)); });
  words_.put("weft.1", text(digits, " ", test::free_port(), " 127.0.0.1"), Deadline::in(1s));
  expect_error(ErrorKind::timeout, {"rank 1: rank 0 did not answer at 127.0.0.1:", " within 0.3 s"},
               [&] { open(1, {}, Deadline::in(300ms)); });
}

TEST_F(ThroughALauncher, WordsThatNoRankSaysAreRefused) {
  for (const std::string& words :
       {std::string("hello"), digits, digits + " 4711 nowhere", "x" + digits.substr(1) + " 1 ::1"}) {
    words_.put("weft.1", words, Deadline::in(1s));
    expect_error(ErrorKind::mismatch, {"rank 1"}, [&] { open(1); });
  }
}

/// TCPStore's server as ranks of weft see it (torch 2.11, TCPStoreLibUvBackend.cpp): what does not begin with VALIDATE and its number
/// is never answered (processBuf, parse_validate_command); SET is not answered (parse_set_command), WAIT when all keys are there
/// (waitKeys), PING with its number; an unknown query closes the connection.
class TorchAgent {
 public:
  explicit TorchAgent(int port) {
    sockaddr_in address = test::loopback(port);
    const int on = 1;
    ::setsockopt(listening_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listening_.get(), 8) != 0)
      throw system_error("cannot listen");
    accepts_ = std::thread([this] {
      while (true) {
        auto client = std::make_shared<test::Socket>(::accept(listening_.get(), nullptr, nullptr));
        if (client->get() < 0) return;
        const std::lock_guard lock(mutex_);
        clients_.push_back(client);
        threads_.emplace_back([this, client] { serve(client->get()); });
      }
    });
  }
  ~TorchAgent() {
    ::shutdown(listening_.get(), SHUT_RDWR);
    accepts_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& client : clients_) ::shutdown(client->get(), SHUT_RDWR);
      ends_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  TorchAgent(const TorchAgent&) = delete;
  TorchAgent& operator=(const TorchAgent&) = delete;

 private:
  template <class T>
  static bool read(int client, T& value) {
    return ::recv(client, &value, sizeof(value), MSG_WAITALL) == static_cast<ssize_t>(sizeof(value));
  }
  static bool read(int client, std::string& words) {
    std::uint64_t size = 0;
    if (!read(client, size) || size > 8192) return false;
    words.resize(size);
    return size == 0 || ::recv(client, words.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }
  static void write(int client, const std::string& bytes) {
    ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  template <class T>
  static std::string raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }

  void serve(int client) {
    bool is_valid = false;
    for (std::uint8_t query = 0; read(client, query);) {
      std::uint32_t number = 0;
      std::uint64_t keys = 0;
      std::string key;
      std::string value;
      if (!is_valid) {
        if (query != 0 || !read(client, number) || number != 0x3C85F7CE) break;
        is_valid = true;
      } else if (query == 13) {
        if (!read(client, number)) return;
        write(client, raw(number));
      } else if (query == 1) {
        if (!read(client, key) || !read(client, value)) return;
        const std::lock_guard lock(mutex_);
        values_[key] = value;
        changed_.notify_all();
      } else if (query == 6) {
        if (!read(client, keys) || keys != 1 || !read(client, key)) return;
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ends_ || values_.contains(key); });
        write(client, raw(std::uint8_t{0}));
      } else if (query == 3) {
        if (!read(client, key)) return;
        const std::lock_guard lock(mutex_);
        write(client, raw(std::uint64_t{values_.at(key).size()}) + values_.at(key));
      } else {
        ::shutdown(client, SHUT_RDWR);
        return;
      }
    }
    for (char byte = 0; ::recv(client, &byte, 1, 0) > 0;) {
    }
  }

  test::Socket listening_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::map<std::string, std::string> values_;
  std::vector<std::shared_ptr<test::Socket>> clients_;
  std::vector<std::thread> threads_;  // of clients
  std::thread accepts_;
};

class ThroughTorchrun : public testing::Test {
 protected:
  std::unique_ptr<detail::LauncherKvs> call(int rank, Deadline deadline = Deadline::in(20s)) const {
    return detail::call_torch_agent("127.0.0.1", port_, rank, deadline);
  }
  const int port_ = test::free_port();
};

TEST_F(ThroughTorchrun, RanksMeetAndMeetAgain) {
  const TorchAgent agent(port_);
  for (int start = 0; start < 2; ++start) {
    test::on_ranks(3, [&](int rank) {
      const auto kvs = call(rank);
      const auto store =
          detail::open_store_through(*kvs, text("weft/", start), rank, Deadline::in(20s), {}, here);
      if (rank == 1) store->set("key", text("value ", start));
      EXPECT_EQ(store->get("key", Deadline::in(20s)), text("value ", start));
      store->set(text("done", rank), "");
      for (int other = 0; rank == 0 && other < 3; ++other) store->get(text("done", other), Deadline::in(20s));
    });
  }
}

TEST_F(ThroughTorchrun, WhoWaitsInVainMayAskAgain) {
  const TorchAgent agent(port_);
  const auto kvs = call(1);
  EXPECT_EQ(kvs->get("weft/1", Deadline::in(100ms)), std::nullopt);
  call(0)->put("weft/1", "words", Deadline::in(20s));
  EXPECT_EQ(kvs->get("weft/1", Deadline::in(20s)), "words");
  call(0)->put("weft/1", "later words", Deadline::in(20s));
  EXPECT_EQ(kvs->get("weft/1", Deadline::in(20s)), "later words");
}

TEST_F(ThroughTorchrun, AnAgentThatComesLaterIsWaitedFor) {
  std::thread later([this] {
    std::this_thread::sleep_for(300ms);
    const TorchAgent agent(port_);
    std::this_thread::sleep_for(2s);
  });
  call(0)->put("weft/1", "words", Deadline::in(20s));
  later.join();
}

TEST_F(ThroughTorchrun, WhatElseListensThereIsNamed) {
  const std::string place = text("127.0.0.1:", port_);
  expect_error(ErrorKind::timeout,
               {"rank 1: the store of torchrun's agent did not answer at " + place +
                " within 0.2 s (Connection refused)"},
               [&] { call(1, Deadline::in(200ms)); });
  const test::Parrot parrot(port_);
  expect_error(
      ErrorKind::usage,
      {"rank 1: what listens at " + place + " does not answer as the store of torchrun's agent does"},
      [&] { call(1); });
}

}  // namespace
}  // namespace weft
