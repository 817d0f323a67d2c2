#pragma once
// Where a launcher lets its processes leave words for each other: the key-value space of PMIx, or the store of torchrun's agent. Ranks
// that know of no address meet through it: rank 0 opens a TCP store at a port that the kernel chooses, and leaves its addresses, the port
// and a token there; the others read them and call. So no port has to be chosen, and jobs of one machine do not
// meet. Who can read the launcher's words can join the job (docs/security.md). Only in builds with Boost.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/collectives/store.hpp"

namespace weft::detail {

class LauncherKvs {
 public:
  virtual ~LauncherKvs() = default;
  /// Rank 0 alone. What is there already is replaced: a job that starts again may find what its ranks left before.
  virtual void put(const std::string& key, const std::string& value, Deadline deadline) = 0;
  /// What rank 0 has put; nullopt at the deadline.
  virtual std::optional<std::string> get(const std::string& key, Deadline deadline) = 0;
};

/// This process as PMIx knows it (PMIx Standard 4.1, sections 5.1 and 6.2). The words are there for the job's
/// processes, as long as the job runs.
struct PmixProcess {
  int rank = 0;
  int size = 1;
  std::unique_ptr<LauncherKvs> kvs;  ///< its end is PMIx's, for this process
};
/// @throws Error (usage) where no PMIx launcher has started this process, or in a build without PMIx, (system) without its
/// library, (timeout)
PmixProcess join_pmix(Deadline deadline);

/// The TCPStore that torchrun's agent hosts at MASTER_ADDR and MASTER_PORT, in the protocol of torch 2.3 and later (torch/csrc/
/// distributed/c10d/TCPStoreBackend.hpp). @throws Error (timeout) when nothing answers, (usage) when something else does
std::unique_ptr<LauncherKvs> call_torch_agent(const std::string& host, int port, int rank, Deadline deadline);

/// @param key one for each time that the job's ranks meet
/// @param interfaces whose addresses rank 0 names (WEFT_INTERFACE); StoreOptions::bind: that address alone
/// @param options a token there is not left with the launcher
/// @throws Error (timeout) where rank 0 leaves no word or does not answer by the deadline, (usage) where something else answers
std::shared_ptr<Store> open_store_through(LauncherKvs& kvs, const std::string& key, int rank,
                                          Deadline deadline, StoreOptions options,
                                          const std::string& interfaces);

/// Rank 0's TCP store at a port that the kernel chooses, on the address `host`, or on all where it is empty.
struct ListeningStore {
  std::shared_ptr<Store> store;
  int port = 0;
};
ListeningStore listen_tcp_store(const std::string& host, Deadline deadline, const StoreOptions& options);
/// Another rank's: calls rank 0 at each of its addresses once, for no longer than until `call`. @throws Error (timeout) where none answers,
/// (usage) where something else does
std::shared_ptr<Store> call_tcp_store(std::vector<std::string> hosts, int port, int rank, Deadline call,
                                      Deadline deadline, const StoreOptions& options);

}  // namespace weft::detail
