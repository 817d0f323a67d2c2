// A client of torch's TCPStore, as far as ranks need it to find each other: a connection sends who it is (VALIDATE, PING) and then queries, each a
// byte, and strings behind their lengths, all in the order of this machine's bytes. WAIT is answered when the key is there; a connection that
// does not wait that long is closed. torch/csrc/distributed/c10d: TCPStoreBackend.hpp (numbers), TCPStore.cpp (messages).

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "collectives/sockets/tcp_socket.hpp"
#include "collectives/store/launcher_kvs.hpp"
#include "collectives/store/store_detail.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

enum class Query : std::uint8_t { validate = 0, set = 1, get = 3, wait = 6, ping = 13 };
constexpr std::uint32_t validation = 0x3C85F7CE;
constexpr std::uint32_t nonce = 0x77656674;  // any
constexpr std::uint8_t stop_waiting = 0;
constexpr std::uint64_t longest_words = 4096;
constexpr std::chrono::seconds to_greet{5};
constexpr std::chrono::milliseconds between_calls_of_agent{50};

class Message {
 public:
  explicit Message(Query query) { append(query); }
  template <class T>
  Message& append(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  Message& append(const std::string& words) {
    append(static_cast<std::uint64_t>(words.size()));
    bytes_ += words;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class TorchAgent final : public LauncherKvs {
 public:
  TorchAgent(std::string host, int port, int rank, Deadline deadline)
      : host_(std::move(host)), port_(port), rank_(rank), socket_(connect(deadline)) {}

  // A query after it on the same connection is answered when the value is stored: SET itself is not.
  void put(const std::string& key, const std::string& value, Deadline deadline) override {
    check(socket_->send(asio::buffer(Message(Query::set).append(key).append(value).bytes()), deadline),
          deadline);
    check(greet(*socket_, deadline, false), deadline);
  }

  std::optional<std::string> get(const std::string& key, Deadline deadline) override {
    if (socket_ == nullptr) socket_ = connect(deadline);
    const std::uint64_t one = 1;
    check(socket_->send(asio::buffer(Message(Query::wait).append(one).append(key).bytes()), deadline),
          deadline);
    std::uint8_t answer = stop_waiting;
    const error_code failed = socket_->receive(asio::buffer(&answer, 1), deadline);
    if (failed == asio::error::timed_out) {
      socket_ = nullptr;
      return std::nullopt;
    }
    check(failed, deadline);
    if (answer != stop_waiting) throw senseless();
    check(socket_->send(asio::buffer(Message(Query::get).append(key).bytes()), deadline), deadline);
    std::uint64_t size = 0;
    check(socket_->receive(asio::buffer(&size, sizeof(size)), deadline), deadline);
    if (size > longest_words) throw senseless();
    std::string value(size, '\0');
    check(socket_->receive(asio::buffer(value), deadline), deadline);
    return value;
  }

 private:
  std::unique_ptr<TcpSocket> connect(Deadline deadline) const {
    error_code last = asio::error::timed_out;
    do {
      auto socket = std::make_unique<TcpSocket>();
      const Deadline soon = at_most(to_greet, deadline);
      error_code failed = socket->open(host_, port_, soon);
      if (!failed) failed = greet(*socket, soon, true);
      if (!failed) return socket;
      if (failed == asio::error::operation_not_supported) throw senseless();
      if (!deadline.passed()) last = failed;
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(between_calls_of_agent, deadline.left()));
    } while (!deadline.passed());
    check(last, deadline);
    return nullptr;
  }

  /// Another answer than the number that was sent is no store's.
  static error_code greet(TcpSocket& socket, Deadline deadline, bool is_first) {
    std::string words;
    if (is_first) words = Message(Query::validate).append(validation).bytes();
    words += Message(Query::ping).append(nonce).bytes();
    std::uint32_t back = 0;
    error_code failed = socket.send(asio::buffer(words), deadline);
    if (!failed) failed = socket.receive(asio::buffer(&back, sizeof(back)), deadline);
    if (!failed && back != nonce) failed = asio::error::operation_not_supported;
    return failed;
  }

  std::string place() const { return text(host_, ":", port_); }
  Error senseless() const {
    return {ErrorKind::usage,
            text("what listens at ", place(), " does not answer as the store of torchrun's agent does"),
            "weft knows the store of torch 2.3 and later; else set WEFT_RENDEZVOUS=tcp://HOST:PORT, at "
            "another port",
            {rank_, {}, 0}};
  }
  void check(error_code failed, Deadline deadline) const {
    if (!failed) return;
    throw Error(ErrorKind::timeout,
                text("the store of torchrun's agent did not answer at ", place(), " within ",
                     seconds_text(deadline), " (", failed.message(), ")"),
                "see whether torchrun runs on the first host, and MASTER_ADDR and MASTER_PORT are reachable "
                "from here",
                {rank_, {}, 0});
  }

  const std::string host_;
  const int port_;
  const int rank_;
  std::unique_ptr<TcpSocket> socket_;
};

}  // namespace

std::unique_ptr<LauncherKvs> call_torch_agent(const std::string& host, int port, int rank,
                                              Deadline deadline) {
  return std::make_unique<TorchAgent>(host, port, rank, deadline);
}

}  // namespace weft::detail
