#pragma once
// What ranks and hubs say to each other over TCP: a header of fixed size, then bytes. A rank asks, the hub answers with the number of the
// request, in any order.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::fake_nccl {

enum class Kind : std::uint32_t {
  join,  ///< text: the team; numbers: size, rank. Bytes: a Member
  meet,  ///< text: about what; numbers: how many have to come. Bytes: anything; the answer is what all brought, by rank
  all_reduce,  ///< collectives: text: what all have to agree in; numbers: of the operation, count, type, op, root
  reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  send,      ///< numbers: to whom. Answered when the receiver has it
  receive,   ///< numbers: from whom, bytes
  withdraw,  ///< request: what this rank asked and waits for no more, because it was aborted
  leave,     ///< the communicator is over, in good order
  answer,    ///< from the hub: what was asked for has come about
  lost,      ///< from the hub: numbers: the rank that is gone
};

struct Header {
  Kind kind{};
  std::uint32_t request = 0;
  std::int64_t numbers[5]{};
  std::uint32_t text_bytes = 0;
  std::uint64_t bytes = 0;
};

struct Frame {
  Header header{};
  std::string text{};
  std::vector<std::byte> bytes{};
};

struct Address {
  std::uint32_t host = 0;  ///< IPv4, as a number
  std::uint16_t port = 0;
};

/// What each rank tells all others when a communicator is made.
struct Member {
  Address hub;             ///< of its process
  std::uint64_t host = 0;  ///< a hash of what NCCL takes for the host
  int device = 0;
  int version = 0;
};

/// One end of a connection. One thread reads, any thread writes.
class Connection {
 public:
  /// @param socket a descriptor, which it closes
  explicit Connection(int socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  /// @returns none if nobody takes the connection
  static std::shared_ptr<Connection> to(Address address);

  /// @returns none when the other end is gone
  std::optional<Frame> read();
  /// False: the other end is gone.
  bool write(Header header, const std::string& text, std::span<const std::byte> bytes);
  bool answer(std::uint32_t request, std::span<const std::byte> bytes) {
    return write({.kind = Kind::answer, .request = request}, {}, bytes);
  }
  void close();

 private:
  int socket_;
  std::mutex writing_;
};

}  // namespace weft::fake_nccl
