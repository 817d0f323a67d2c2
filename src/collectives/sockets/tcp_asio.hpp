#pragma once
// Boost.Asio's sockets, by the names that weft uses. Slow to compile: for few sources.

#if defined(__SANITIZE_THREAD__)
// Asio's fences are what TSan does not know; all that they order here is ordered by mutexes too.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK 1
#endif
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "weft/core/error.hpp"

namespace weft::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// For one thread. Boost's own exception where a process may open no more files would not be an Error.
inline asio::io_context new_context() {
  try {
    return asio::io_context(1);
  } catch (const boost::system::system_error& failed) {
    throw Error(ErrorKind::system, text("cannot wait for connections: ", failed.code().message()),
                "raise the number of open files (ulimit -n)");
  }
}

/// A machine that is gone closes no connection: the kernel asks it after so many seconds of silence, so many times, a second apart.
/// Not within a machine, whose kernel closes what a process leaves. There hundreds of ranks have a hundred thousand connections, and those whose time
/// comes in the same quarter of a second are asked in one go: more than the kernel's queue takes, and what was not answered was closed.
inline void watch_for_lost_hosts(tcp::socket& socket, int times = 3, int silence = 1) {
  error_code ignored;
  if (socket.local_endpoint(ignored).address() == socket.remote_endpoint(ignored).address()) return;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int option, int value) {  // without it the system's own times hold, which are hours
    (void)::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, silence);
  set(TCP_KEEPINTVL, 1);
  set(TCP_KEEPCNT, times);
}

}  // namespace weft::detail
