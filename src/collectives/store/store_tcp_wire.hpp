#pragma once
// What travels between the ranks and rank 0's store. First both sides greet each other with a challenge, and the
// rank and then the server prove that they know the job's token (job_token.hpp): until then a connection costs rank
// 0 a socket and buffers of fixed size, and nothing that it says is more than compared.
//
// Then one message is a Head, the key and the value, and so is its answer. A connection carries one request at a
// time; the server keeps a `get` until the key comes or its time is up, so that waiting costs no traffic. Included
// by store_tcp.cpp alone: Asio is slow to compile.

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "collectives/sockets/job_token.hpp"
#include "collectives/sockets/tcp_asio.hpp"
#include "collectives/store/store_detail.hpp"

namespace weft::detail::tcp_store {

namespace asio = detail::asio;
using detail::error_code;
using detail::tcp;
using detail::watch_for_lost_hosts;

struct Greeting {
  static constexpr std::array<char, 8> right{'w', 'e', 'f', 't', '-', 's', 't', '3'};

  std::array<char, 8> magic = right;
  std::int64_t rank = 0;
  Challenge challenge{};
};
static_assert(sizeof(Greeting) == 48 && std::is_trivially_copyable_v<Greeting>);

/// What the server says instead of its proof to a rank whose token is another.
inline constexpr Proof wrong_token{};

inline constexpr std::uint32_t magic = 0x31746677;  // "wft1" on the wire; another byte order does not match

enum class Word : std::uint32_t { set = 1, get, gone, ok, absent, conflict, full };

struct Head {
  std::uint32_t magic_number = magic;
  Word word = Word::get;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  std::int64_t wait = 0;  ///< nanoseconds that a get may take; negative: for ever
};
static_assert(sizeof(Head) == 24 && std::is_trivially_copyable_v<Head>);

inline std::string message(Head head, const std::string& key, const std::string& value) {
  head.key_bytes = static_cast<std::uint32_t>(key.size());
  head.value_bytes = static_cast<std::uint32_t>(value.size());
  std::string bytes(sizeof(head), '\0');
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes + key + value;
}

inline bool acceptable(const Head& head) {
  return head.magic_number == magic && head.key_bytes <= longest_key && head.value_bytes <= longest_value;
}

/// Whether ranks of one machine only can meet there.
inline bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  error_code is_a_name;
  const auto literal = asio::ip::make_address(host, is_a_name);
  return !is_a_name && literal.is_loopback();
}

}  // namespace weft::detail::tcp_store
