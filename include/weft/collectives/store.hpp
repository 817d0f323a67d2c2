#pragma once
// A small key-value store in which ranks leave notes for each other before they can communicate.
//
// Keys are written once; a key is at most 4 KiB long, a value at most 16 MiB. `get` waits for a key; nothing
// else waits for another rank. One Store object belongs to one rank, may be used from any thread, and keeps
// its resources (a server, a file) until it is destroyed. Three kinds: in memory for ranks that are threads,
// a file for processes of one machine (no dependency), TCP (Boost.Asio) across machines.
//
//   auto store = open_store("tcp://node0:29500", rank, Deadline::in(30s));  // rank 0 serves all
//   store->set("hello/" + std::to_string(rank), "I am here");
//   std::optional<std::string> note = store->get("hello/1", deadline);  // nullopt: not there in time
//
// WRONG: store->set("step", "1"); store->set("step", "2");   // an Error: put what changes into the key

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/deadline.hpp"

namespace weft {

class Store {
 public:
  virtual ~Store() = default;
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Values are arbitrary bytes. @throws Error (usage) when the key was set before to another value
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits until the key is set; nullopt when it is not at the deadline (a deadline in the past asks without
  /// waiting).
  virtual std::optional<std::string> get(const std::string& key, Deadline deadline) = 0;
  /// The ranks that have opened this store and left it: their process has ended, however, or their Store has. Asks
  /// at most rank 0, and does not wait. A store in memory, which threads share, knows of none.
  virtual std::vector<int> gone() { return {}; }
  /// Every rank has opened this store: from now on it lets no other process in. Each rank says so. It goes on as before,
  /// except that threads of a rank take turns. connect() does it for the store that its World opened.
  virtual void stop_listening() {}
};

/// For ranks that are threads of this process: share one object.
std::shared_ptr<Store> make_memory_store();

/// An append-only file that all ranks of one machine open. Rank 0 creates it and removes it when its store
/// ends; the others wait for it until the deadline. @throws Error (usage) when an earlier run used the path,
/// (timeout) when rank 0 does not create it in time
std::shared_ptr<Store> make_file_store(const std::string& path, int rank,
                                       Deadline deadline = Deadline::in(std::chrono::minutes(2)));

struct StoreOptions {
  /// The secret of the job; see docs/security.md. Empty: every process that reaches the port is let in.
  std::string token{};
  /// The address on which rank 0 listens where the host's name is not this machine's; empty: all.
  std::string bind{};
};

/// Rank 0 listens on host:port, every rank connects and proves that it knows the token. At its end rank 0
/// stays for up to two seconds until the others have disconnected, so that no rank loses the last answer: of
/// stores in one process, destroy rank 0's last. @throws Error (usage) when the port is in use on rank 0;
/// without a token where the host is not loopback; with another token than rank 0's; in a build without Boost
/// @throws Error (timeout) when rank 0 does not answer in time
std::shared_ptr<Store> make_tcp_store(const std::string& host, int port, int rank, Deadline deadline,
                                      const StoreOptions& options = {});

/// By address: tcp://HOST:PORT or file://PATH. @throws Error (usage) on any other
std::shared_ptr<Store> open_store(const std::string& address, int rank, Deadline deadline,
                                  const StoreOptions& options = {});

}  // namespace weft
