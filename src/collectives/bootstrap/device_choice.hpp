#pragma once
// Which device a rank computes on, and whether the ranks' choices go together.

#include <functional>
#include <string>
#include <vector>

#include "weft/core/device.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {

/// What WEFT_DEVICE says: host, cuda:N, or cuda for the device with this rank's number on its node.
/// @param local_rank asked only for "cuda". @throws Error (usage) for a device that this process does not
/// have
Device choose_device(const Environment& environment, const std::function<int()>& local_rank);

/// Whether several ranks of a node may use one device (WEFT_SHARE_DEVICE).
bool may_share_devices(const Environment& environment);

/// What the others must know of this rank: its node, and there its device.
struct Place {
  std::string host_id;
  std::string device = "host";  ///< or a name that is the same in every process

  static Place of(const std::string& host_id, Device device);
  std::string note() const;
  static Place from(const std::string& note);
};

/// @param may_share whether ranks of a node may use the same device
/// @returns whether some do. @throws Error (mismatch, usage) naming two ranks whose choices do not go
/// together
bool check_places(const std::vector<Place>& places, bool may_share);

/// Lets NCCL put several ranks on one device, which it refuses otherwise. Before its first call.
void let_nccl_share_devices(int rank, int nccl_version);

}  // namespace weft::detail
