#pragma once
// Another process of this node and what of its memory is mapped here: one pidfd and one mapping of each of its files, however many
// communicators reach them. The last of those unmaps.
//
// Which process a number means is the kernel's word (PeerProcess), asked at every connect(). One that was known under that number and
// has not ended since is the same, for its number is its own so long; one that has ended is another. A file of a process is the same
// where device and inode are, which a mapping keeps from being given to another file.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "collectives/processes/peer_process.hpp"
#include "weft/core/shared_memory.hpp"

namespace weft::detail {

class PeerMemory {
 public:
  /// The process that is known, or is new. Any thread. @param pid, socket what the peer says of itself
  /// @throws Error (mismatch, peer_lost) as PeerProcess
  static std::shared_ptr<PeerMemory> of(int pid, const std::string& socket);
  explicit PeerMemory(PeerProcess process) : process_(std::move(process)) {}

  const PeerProcess& process() const { return process_; }
  /// Its memory file with this descriptor, mapped once. Any thread. @throws Error (system, mismatch, peer_lost)
  std::shared_ptr<SharedMapping> map(int fd, std::size_t bytes);

 private:
  struct File {
    std::pair<std::uint64_t, std::uint64_t> identity;
    std::size_t bytes;
    auto operator<=>(const File&) const = default;
  };

  PeerProcess process_;
  std::mutex mutex_;
  std::map<File, std::weak_ptr<SharedMapping>> mapped_;
};

}  // namespace weft::detail
