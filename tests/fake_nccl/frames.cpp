#include "fake_nccl/frames.hpp"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

namespace weft::fake_nccl {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Never destroyed: threads may read at the process's end.
asio::io_context& io() {
  static auto* const one = new asio::io_context;
  return *one;
}

Connection::Connection(tcp::socket socket) : socket_(std::move(socket)) {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
}

std::shared_ptr<Connection> Connection::to(Address address) {
  tcp::socket socket(io());
  error_code error;
  socket.connect({asio::ip::address_v4(address.host), address.port}, error);
  if (error) return nullptr;
  return std::make_shared<Connection>(std::move(socket));
}

std::optional<Frame> Connection::read() {
  Frame frame;
  error_code error;
  asio::read(socket_, asio::buffer(&frame.header, sizeof(Header)), error);
  if (error) return std::nullopt;
  frame.text.resize(frame.header.text_bytes);
  frame.bytes.resize(frame.header.bytes);
  asio::read(socket_,
             std::array{asio::buffer(frame.text), asio::buffer(frame.bytes.data(), frame.bytes.size())},
             error);
  if (error) return std::nullopt;
  return frame;
}

bool Connection::write(Header header, const std::string& text, std::span<const std::byte> bytes) {
  header.text_bytes = static_cast<std::uint32_t>(text.size());
  header.bytes = bytes.size();
  const std::lock_guard lock(writing_);
  error_code error;
  asio::write(socket_,
              std::array{asio::buffer(static_cast<const void*>(&header), sizeof(header)), asio::buffer(text),
                         asio::buffer(static_cast<const void*>(bytes.data()), bytes.size())},
              error);
  return !error;
}

void Connection::close() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
}

}  // namespace weft::fake_nccl
