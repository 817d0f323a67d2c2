#include "weft/collectives/store.hpp"

#include <charconv>

#include "weft/core/error.hpp"

namespace weft {

std::shared_ptr<Store> open_store(const std::string& address, int rank, Deadline deadline) {
  const std::string file = "file://";
  if (address.starts_with(file) && address.size() > file.size()) {
    return make_file_store(address.substr(file.size()), rank, deadline);
  }
  const std::string tcp = "tcp://";
  const std::size_t colon = address.rfind(':');
  if (address.starts_with(tcp) && colon >= tcp.size()) {
    std::string host = address.substr(tcp.size(), colon - tcp.size());
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    int port = 0;
    const char* last = address.data() + address.size();
    const auto [end, code] = std::from_chars(address.data() + colon + 1, last, port);
    if (!host.empty() && code == std::errc{} && end == last)
      return make_tcp_store(host, port, rank, deadline);
  }
  throw Error(ErrorKind::usage,
              text("meeting point '", address, "' is neither tcp://HOST:PORT nor file://PATH"));
}

}  // namespace weft
