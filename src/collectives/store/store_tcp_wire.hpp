#pragma once
// What travels between the ranks and rank 0's store. One message is a Head, the key and the value, and so is
// its answer. A connection carries one request at a time; the server keeps a `get` until the key comes or its
// time is up, so that waiting costs no traffic. Included by store_tcp.cpp alone: Asio is slow to compile.

#if defined(__SANITIZE_THREAD__)
// Asio's fences are what TSan does not know; all that they order here is ordered by mutexes too.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK 1
#endif
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "collectives/store/store_detail.hpp"

namespace weft::detail::tcp_store {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

inline constexpr std::uint32_t magic = 0x31746677;  // "wft1" on the wire; another byte order does not match

enum class Word : std::uint32_t { hello, set, get, ok, absent, conflict };

struct Head {
  std::uint32_t magic_number = magic;
  Word word = Word::hello;
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

/// Where rank 0 finds its own server: `host` itself when that is a loopback address.
inline std::string own_address(const std::string& host) {
  error_code is_a_name;
  const auto literal = asio::ip::make_address(host, is_a_name);
  return !is_a_name && literal.is_loopback() ? host : "127.0.0.1";
}

}  // namespace weft::detail::tcp_store
