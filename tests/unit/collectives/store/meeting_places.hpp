#pragma once
// Places where ranks that are threads meet: each of the three stores, and what a test of them needs around
// it.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.hpp"
#include "weft/collectives/store.hpp"
#include "weft/core/error.hpp"

namespace weft::test {

class Socket {
 public:
  Socket() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(descriptor_); }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A port nobody listens on; somebody may take it before the test does, which then fails and names it.
inline int free_port() {
  const Socket socket;
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw system_error("no free port");
  }
  return ntohs(address.sin_port);
}

/// Speaks to a port as no rank does.
class RawConnection {
 public:
  explicit RawConnection(int port) {
    sockaddr_in address = loopback(port);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      throw system_error("cannot connect");
    }
  }
  void send(const std::string& bytes) const {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// So many bytes, or those before the peer closed.
  std::string receive(std::size_t bytes) const {
    const timeval time_limit{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &time_limit, sizeof(time_limit));
    std::string answer(bytes, '\0');
    const ssize_t got = ::recv(socket_.get(), answer.data(), bytes, MSG_WAITALL);
    answer.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return answer;
  }
  bool is_closed_by_peer() const {
    const timeval time_limit{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &time_limit, sizeof(time_limit));
    char byte = 0;
    const ssize_t got = ::recv(socket_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  Socket socket_;
};

/// A server that is not weft's: sends one client a line of its own.
class Parrot {
 public:
  explicit Parrot(int port) {
    sockaddr_in address = loopback(port);
    const int on = 1;
    ::setsockopt(listening_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listening_.get(), 1) != 0) {
      throw system_error("cannot listen");
    }
    thread_ = std::thread([this] {
      const Socket client(::accept(listening_.get(), nullptr, nullptr));
      const std::string greeting = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n";
      ::send(client.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
      char byte = 0;
      while (::recv(client.get(), &byte, 1, 0) > 0) {
      }
    });
  }
  Parrot(const Parrot&) = delete;
  Parrot& operator=(const Parrot&) = delete;
  ~Parrot() {
    ::shutdown(listening_.get(), SHUT_RDWR);  // an accept that nobody came to ends
    thread_.join();
  }

 private:
  Socket listening_;
  std::thread thread_;
};

inline bool has_tcp() {
  try {
    make_tcp_store("127.0.0.1", 0, 0, Deadline::in({}));
  } catch (const Error& error) {
    return std::string(error.what()).find("no Boost") == std::string::npos;
  }
  return true;
}

/// One address at which ranks open their stores.
class MeetingPlace {
 public:
  enum class Kind { memory, file, tcp };

  explicit MeetingPlace(Kind kind) : kind_(kind) {}

  std::shared_ptr<Store> open(int rank, Deadline deadline = Deadline::in(std::chrono::seconds(20))) {
    switch (kind_) {
      case Kind::memory:
        return memory_;
      case Kind::file:
        return open_store("file://" + folder_.path() + "/store", rank, deadline);
      case Kind::tcp:
        return open_store("tcp://127.0.0.1:" + std::to_string(port_), rank, deadline);
    }
    return nullptr;
  }

 private:
  Kind kind_;
  std::shared_ptr<Store> memory_ = make_memory_store();
  TemporaryFolder folder_;
  int port_ = free_port();
};

class AtEveryPlace : public testing::TestWithParam<MeetingPlace::Kind> {
 protected:
  MeetingPlace& place() { return place_; }

 private:
  MeetingPlace place_{GetParam()};
};

inline std::vector<MeetingPlace::Kind> all_places() {
  using Kind = MeetingPlace::Kind;
  return has_tcp() ? std::vector{Kind::memory, Kind::file, Kind::tcp} : std::vector{Kind::memory, Kind::file};
}

/// Where ranks may be processes, which leave.
inline std::vector<MeetingPlace::Kind> places_of_processes() {
  std::vector<MeetingPlace::Kind> places = all_places();
  std::erase(places, MeetingPlace::Kind::memory);
  return places;
}

inline std::string place_name(const testing::TestParamInfo<MeetingPlace::Kind>& kind) {
  switch (kind.param) {
    case MeetingPlace::Kind::memory:
      return "Memory";
    case MeetingPlace::Kind::file:
      return "File";
    case MeetingPlace::Kind::tcp:
      return "Tcp";
  }
  return "Unknown";
}

/// Runs `body` as each rank at the same time; what one throws fails the test.
inline void on_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&body, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weft::test
