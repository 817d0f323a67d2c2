#pragma once
// A group's communicators for CUDA devices: made when they are first used, and then by all of its ranks.
//
// Collectives on a device have one communicator of the whole group. A message between two ranks that is sent alone has one of those
// two, for the other ranks do not call; they are made in the order of the calls too. Messages that are coalesced go over the whole group's:
// all ranks take part in the first such call, as torch asks for.
//
// Making one blocks the host until all of its ranks are there. Any thread may call.

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "torch/distributed/group.hpp"

namespace weft::distributed {

class DeviceGroups {
 public:
  /// @param host the group for host tensors, whose ranks and timeout they take
  DeviceGroups(std::shared_ptr<Group> host, std::shared_ptr<Store> store);

  /// The one of all ranks.
  std::shared_ptr<Group> on(Device device);
  /// The one of this rank and a peer; of all ranks, if that is this rank itself.
  std::shared_ptr<Group> with_peer(Device device, int peer);
  /// Those that there are now.
  std::vector<std::shared_ptr<Group>> all() const;

 private:
  static constexpr int everyone = -1;
  std::shared_ptr<Group> find(Device device, int peer) const;
  std::shared_ptr<Group> made(Device device, int peer);

  const std::shared_ptr<Group> host_;
  const std::shared_ptr<Store> store_;
  std::mutex making_;         // held while ranks meet
  int whole_ = 0;             // groups of all ranks so far: the n-th of one rank meets the n-th of the others
  std::map<int, int> pairs_;  // the same by peer
  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, std::shared_ptr<Group>> groups_;  // by device and peer
};

}  // namespace weft::distributed
