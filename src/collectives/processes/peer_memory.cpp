#include "collectives/processes/peer_memory.hpp"

#include "core/memory/per_process.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

/// The processes that this one's communicators reach, by number.
constinit PerProcess<std::map<int, std::weak_ptr<PeerMemory>>> peers;

void forget_expired(auto& known) {
  std::erase_if(known, [](const auto& one) { return one.second.expired(); });
}

}  // namespace

std::shared_ptr<PeerMemory> PeerMemory::of(int pid, const std::string& socket) {
  PeerProcess asked(pid, socket);
  return peers.use([&](auto& known) {
    forget_expired(known);
    auto there = known[pid].lock();
    if (there && !there->process().ended()) {
      // Both live at this moment, and one number is not two processes'.
      if (!asked.ended()) return there;
      throw Error(ErrorKind::peer_lost, text("process ", pid, " ended while this one connected to it"));
    }
    there = std::make_shared<PeerMemory>(std::move(asked));
    known[pid] = there;
    return there;
  });
}

std::shared_ptr<SharedMapping> PeerMemory::map(int fd, std::size_t bytes) {
  const MemoryFile file = process_.memory(fd, bytes);
  const std::lock_guard lock(mutex_);
  forget_expired(mapped_);
  auto& known = mapped_[{file.identity(), bytes}];
  auto mapping = known.lock();
  if (!mapping) known = mapping = std::make_shared<SharedMapping>(file.map());
  return mapping;
}

}  // namespace weft::detail
