#include "membership.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "weft/core/text.hpp"

namespace weft::launch {

Membership::Membership(std::vector<Host> hosts, int ranks) : hosts_(std::move(hosts)) {
  const std::vector<Share> shares = share_ranks(hosts_, ranks);
  most_ = shares.back().first + shares.back().count;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].slots == 0) hosts_[i].slots = shares[i].count;
  }
}

int Membership::ranks() const {
  int slots = 0;
  for (const Host& host : present()) slots += host.slots;
  return std::min(slots, most_);
}

std::vector<Host> Membership::present() const {
  std::vector<Host> there;
  std::ranges::copy_if(hosts_, std::back_inserter(there),
                       [this](const Host& host) { return host.slots > 0 && !lost_.contains(host.name); });
  return there;
}

std::string words_of(const Membership& members) {
  std::string words = text(members.ranks(), members.ranks() == 1 ? " rank on" : " ranks on");
  const char* before = " ";
  for (const Host& host : members.present()) words += std::exchange(before, ", ") + host.name;
  before = "; without ";
  for (const std::string& host : members.lost()) words += std::exchange(before, ", ") + host;
  return words;
}

}  // namespace weft::launch
