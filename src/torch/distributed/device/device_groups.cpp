#include "torch/distributed/device/device_groups.hpp"

#include <algorithm>

#include "weft/core/text.hpp"

namespace weft::distributed {

DeviceGroups::DeviceGroups(std::shared_ptr<Group> host, std::shared_ptr<Store> store)
    : host_(std::move(host)), store_(std::move(store)) {}

std::shared_ptr<Group> DeviceGroups::find(Device device, int peer) const {
  const std::lock_guard lock(mutex_);
  const auto at = groups_.find({device.index(), peer});
  return at == groups_.end() ? nullptr : at->second;
}

std::vector<std::shared_ptr<Group>> DeviceGroups::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Group>> groups;
  for (const auto& [key, group] : groups_) groups.push_back(group);
  return groups;
}

std::shared_ptr<Group> DeviceGroups::on(Device device) {
  return made(device, everyone);
}

std::shared_ptr<Group> DeviceGroups::with_peer(Device device, int peer) {
  return made(device, peer == host_->rank() ? everyone : peer);
}

std::shared_ptr<Group> DeviceGroups::made(Device device, int peer) {
  if (auto group = find(device, peer)) return group;
  const std::lock_guard making(making_);
  if (auto group = find(device, peer)) return group;
  host_->expect_open();
  std::shared_ptr<Group> group;
  if (peer == everyone) {
    group = Group::connect({store_, text("weft/device/", whole_), host_->rank(), host_->size(), device},
                           host_->name(), host_->timeout());
    ++whole_;
  } else {
    const int low = std::min(host_->rank(), peer);
    const int high = std::max(host_->rank(), peer);
    group = Group::connect({store_, text("weft/device/", low, '-', high, '/', pairs_[peer]),
                            host_->rank() == low ? 0 : 1, 2, device},
                           host_->name().pair(low, high), host_->timeout());
    ++pairs_[peer];
  }
  const std::lock_guard lock(mutex_);
  groups_[{device.index(), peer}] = group;
  return group;
}

}  // namespace weft::distributed
