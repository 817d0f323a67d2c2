#include "collectives/store/launcher_kvs.hpp"

#include <algorithm>
#include <utility>

#include "collectives/store/store_detail.hpp"
#include "collectives/tcp/tcp_addresses.hpp"
#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// Where rank 0 does not answer, its words may be those of a start before: they are read again after so long, at first.
constexpr std::chrono::nanoseconds first_call = std::chrono::seconds(2);

std::shared_ptr<Store> listen_and_say_where(LauncherKvs& kvs, const std::string& key, Deadline deadline,
                                            StoreOptions options, const std::string& interfaces) {
  Introduction mine{new_challenge()};
  if (options.token.empty()) options.token = hex_digits(mine.secret);
  std::vector<asio::ip::address> addresses = reachable_addresses(interfaces);
  if (!options.bind.empty()) {
    error_code failed;
    addresses = {asio::ip::make_address(options.bind, failed)};
    if (failed)
      throw Error(ErrorKind::usage, text(env::bind.name, "=", options.bind, " is no address"),
                  "give an IP address of this machine", {0, {}, 0});
  }
  ListeningStore listening =
      listen_tcp_store(addresses.size() == 1 ? addresses.front().to_string() : "", deadline, options);
  for (const auto& address : addresses)
    mine.endpoints.emplace_back(address, static_cast<unsigned short>(listening.port));
  kvs.put(key, mine.note(), deadline);
  return std::move(listening.store);
}

Introduction introduction(const std::string& words, int rank) try {
  Introduction rank_0 = Introduction::from(words);
  if (rank_0.endpoints.empty())
    throw Error(ErrorKind::mismatch, "a rank introduces itself without an address");
  return rank_0;
} catch (const Error& error) {
  throw Error(ErrorKind::mismatch, text("rank 0's words with the launcher make no sense: ", error.problem()),
              "give all ranks the same version of weft", {rank, {}, 0});
}

std::shared_ptr<Store> call(const Introduction& rank_0, int rank, Deadline soon, Deadline deadline,
                            StoreOptions options) {
  if (options.token.empty()) options.token = hex_digits(rank_0.secret);
  std::vector<std::string> hosts;
  for (const tcp::endpoint& one : rank_0.endpoints) hosts.push_back(one.address().to_string());
  return call_tcp_store(std::move(hosts), rank_0.endpoints.front().port(), rank, soon, deadline, options);
}

}  // namespace

std::shared_ptr<Store> open_store_through(LauncherKvs& kvs, const std::string& key, int rank,
                                          Deadline deadline, StoreOptions options,
                                          const std::string& interfaces) {
  if (rank == 0) return listen_and_say_where(kvs, key, deadline, std::move(options), interfaces);
  for (auto step = first_call;; step *= 2) {
    const auto words = kvs.get(key, deadline);
    if (!words)
      throw Error(
          ErrorKind::timeout, text("rank 0 did not say where it listens within ", seconds_text(deadline)),
          "see whether rank 0 started or failed; WEFT_CONNECT_TIMEOUT sets how long to wait", {rank, {}, 0});
    try {
      return call(introduction(*words, rank), rank, at_most(step, deadline), deadline, options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timeout || deadline.passed()) throw;
    }
  }
}

}  // namespace weft::detail
