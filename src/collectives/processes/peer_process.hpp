#pragma once
// Which process a rank of this node is, by the kernel's word. What a rank says of its number alone is not believed: after
// its death another process may have that number, and a forged one would lead into a stranger's files.
//
// Each rank listens at a socket without a path and tells the others its name. Who connects learns from the kernel which
// process listens there, of which user (SO_PEERCRED, unix(7)), and takes a pidfd of it while the connection is whole: so
// long it lives, and its number is its own. Nothing is ever accepted or sent: a connection waits in the backlog, and
// breaks when the process ends. Costs a system call or five for a peer, once.

#include <cstddef>
#include <string>

#include "core/base/descriptor.hpp"
#include "weft/core/shared_memory.hpp"

namespace weft::detail {

/// Where this process can be asked who it is, until this object ends.
class IdentitySocket {
 public:
  /// @throws Error (system)
  IdentitySocket();
  /// One word of letters and digits, for the others.
  const std::string& name() const { return name_; }

 private:
  Descriptor socket_;
  std::string name_;
};

class PeerProcess {
 public:
  /// @param pid what the peer says of itself
  /// @param socket the name of its IdentitySocket
  /// @throws Error (mismatch) when another process or another user's listens there; (peer_lost) when none does
  PeerProcess(int pid, const std::string& socket);

  int pid() const { return pid_; }
  /// Whether it has ended, even before its parent has reaped it.
  bool ended() const;
  /// Whether a signal (SIGSTOP) or a debugger holds it: it lives and does nothing, where a slow one goes on.
  bool stopped() const;
  /// Its memory file with this descriptor. @throws Error (system, mismatch, peer_lost)
  MemoryFile memory(int fd, std::size_t bytes) const;

 private:
  int pid_;
  Descriptor pidfd_;
};

}  // namespace weft::detail
