#include "fake_nccl/frames.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace weft::fake_nccl {
namespace {

bool read_all(int socket, void* to, std::size_t bytes) {
  for (auto* at = static_cast<std::byte*>(to); bytes > 0;) {
    const ssize_t got = recv(socket, at, bytes, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got < 0) continue;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int socket, const void* from, std::size_t bytes) {
  for (const auto* at = static_cast<const std::byte*>(from); bytes > 0;) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return false;
    if (sent < 0) continue;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

Connection::Connection(int socket) : socket_(socket) {
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}
Connection::~Connection() {
  ::close(socket_);
}

std::shared_ptr<Connection> Connection::to(Address address) {
  auto connection = std::make_shared<Connection>(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_addr.s_addr = htonl(address.host);
  there.sin_port = htons(address.port);
  if (::connect(connection->socket_, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0)
    return nullptr;
  return connection;
}

std::optional<Frame> Connection::read() {
  Frame frame;
  if (!read_all(socket_, &frame.header, sizeof(Header))) return std::nullopt;
  frame.text.resize(frame.header.text_bytes);
  frame.bytes.resize(frame.header.bytes);
  if (!read_all(socket_, frame.text.data(), frame.text.size())) return std::nullopt;
  if (!read_all(socket_, frame.bytes.data(), frame.bytes.size())) return std::nullopt;
  return frame;
}

bool Connection::write(Header header, const std::string& text, std::span<const std::byte> bytes) {
  header.text_bytes = static_cast<std::uint32_t>(text.size());
  header.bytes = bytes.size();
  const std::lock_guard lock(writing_);
  return write_all(socket_, &header, sizeof(header)) && write_all(socket_, text.data(), text.size()) &&
         write_all(socket_, bytes.data(), bytes.size());
}

void Connection::close() {
  shutdown(socket_, SHUT_RDWR);
}

}  // namespace weft::fake_nccl
