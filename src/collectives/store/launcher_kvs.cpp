#include "collectives/store/launcher_kvs.hpp"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "collectives/sockets/tcp_addresses.hpp"
#include "collectives/store/store_detail.hpp"
#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// How long a rank tries the address that rank 0 has left before it reads the address again: an earlier attempt of the job, on a machine that is gone,
// may have left it. The time grows with each try.
constexpr std::chrono::nanoseconds first_call = std::chrono::seconds(2);
// The same if the connection is refused, or another process answers.
constexpr std::chrono::nanoseconds pause = std::chrono::milliseconds(50);

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

/// @param soon for one call at each of rank 0's addresses
std::shared_ptr<Store> call(const Introduction& rank_0, int rank, Deadline soon, Deadline deadline,
                            StoreOptions options) {
  if (options.token.empty()) options.token = hex_digits(rank_0.secret);
  std::vector<std::string> hosts;
  for (const tcp::endpoint& one : rank_0.endpoints) hosts.push_back(one.address().to_string());
  return call_tcp_store(std::move(hosts), rank_0.endpoints.front().port(), rank, soon, deadline, options);
}

/// The launcher keeps its words while it starts ranks again: what does not lead to rank 0 of this attempt may be what an earlier one left, which
/// rank 0 replaces when it comes.
std::shared_ptr<Store> read_and_call(LauncherKvs& kvs, const std::string& key, int rank, Deadline deadline,
                                     const StoreOptions& options) {
  std::string before;
  std::optional<Error>
      refused;  // with the words that stand: a last try that is cut short by the deadline says less
  for (auto step = first_call;;) {
    const auto words = kvs.get(key, deadline);
    if (!words)
      throw Error(
          ErrorKind::timeout, text("rank 0 did not say where it listens within ", seconds_text(deadline)),
          "see whether rank 0 started or failed; WEFT_CONNECT_TIMEOUT sets how long to wait", {rank, {}, 0});
    if (*words != before) {
      step = first_call;
      refused.reset();
    }
    before = *words;
    const Deadline soon = at_most(step, deadline);
    try {
      return call(introduction(*words, rank), rank, soon, deadline, options);
    } catch (const Error& error) {
      const bool may_be_stale = error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::usage;
      if (error.kind() == ErrorKind::usage) refused = error;
      if (!may_be_stale) throw;
      if (deadline.left() <= pause) {
        if (refused) throw Error(*refused);
        throw;
      }
    }
    if (soon.passed()) step *= 2;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
  }
}

}  // namespace

std::shared_ptr<Store> open_store_through(LauncherKvs& kvs, const std::string& key, int rank,
                                          Deadline deadline, StoreOptions options,
                                          const std::string& interfaces) {
  if (rank == 0) return listen_and_say_where(kvs, key, deadline, std::move(options), interfaces);
  return read_and_call(kvs, key, rank, deadline, options);
}

}  // namespace weft::detail
