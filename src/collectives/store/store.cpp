#include "weft/collectives/store.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

#include "collectives/store/store_detail.hpp"
#include "core/base/host_port.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

class MemoryStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    detail::check_entry(key, value.size());
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = values_.try_emplace(key, value);
    if (!fresh && entry->second != value) {
      throw Error(ErrorKind::usage, text("key '", key, "' was set before to another value"));
    }
    changed_.notify_all();
  }

  std::optional<std::string> get(const std::string& key, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    // Turns of an hour: the clock's largest time point, which means "never", overflows inside some libraries.
    while (true) {
      if (const auto found = values_.find(key); found != values_.end()) return found->second;
      if (deadline.passed()) return std::nullopt;
      changed_.wait_until(lock, std::min(deadline.end(), Deadline::Clock::now() + std::chrono::hours(1)));
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::optional<std::pair<std::string, int>> detail::host_and_port(std::string_view address,
                                                                 std::string_view scheme) {
  if (!address.starts_with(scheme)) return std::nullopt;
  const auto parts = split_host_port(address.substr(scheme.size()));
  if (!parts || parts->host.empty()) return std::nullopt;
  const auto port = port_number(parts->port.value_or(""));
  return port ? std::optional(std::pair(std::string(parts->host), *port)) : std::nullopt;
}

std::shared_ptr<Store> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

std::shared_ptr<Store> open_store(const std::string& address, int rank, Deadline deadline,
                                  const StoreOptions& options) {
  const std::string file = "file://";
  if (address.starts_with(file) && address.size() > file.size()) {
    return make_file_store(address.substr(file.size()), rank, deadline);
  }
  if (const auto place = detail::host_and_port(address, "tcp://"))
    return make_tcp_store(place->first, place->second, rank, deadline, options);
  throw Error(ErrorKind::usage, text("rendezvous '", address, "' is neither tcp://HOST:PORT nor file://PATH"),
              "a host is followed by a port from 1 to 65535, and an IPv6 address stands in brackets");
}

}  // namespace weft
