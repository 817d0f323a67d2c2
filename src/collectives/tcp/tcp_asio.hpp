#pragma once
// Boost.Asio's sockets, by the names that weft uses. Slow to compile: for few sources.

#if defined(__SANITIZE_THREAD__)
// Asio's fences are what TSan does not know; all that they order here is ordered by mutexes too.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK 1
#endif
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

namespace weft::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

}  // namespace weft::detail
