// A group of some of a group's ranks, as torch.distributed.split_group makes it: they meet in the store that torch gives them.

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "torch/distributed/backend.hpp"
#include "weft/core/text.hpp"

namespace weft::distributed {
namespace {

/// Older torch has no names there, and asks no backend to split.
template <class Options>
std::string name_in(const Options& options) {
  if constexpr (requires { options.group_name; })
    return options.group_name;
  else
    return "split";
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> TorchBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  group_->expect_here();
  const auto place = std::ranges::find(ranks, getRank());
  if (place == ranks.end()) return nullptr;
  GroupName name{.name = options ? name_in(*options) : "split", .ranks = {}};
  // Torch calls it once for every kind of device, with the same store. Ranks that are not of the new group do not all call it, so that calls
  // are counted by its name, which torch uses once.
  const std::string keys = text("split/", name.name, '/', ++splits_[name.name]);
  for (const int rank : ranks) name.ranks.push_back(group_->rank_of_world(checked_peer("split_group", rank)));
  const std::chrono::milliseconds timeout = options ? options->timeout : group_->timeout();
  return connect(c10::make_intrusive<c10d::PrefixStore>(keys, store), static_cast<int>(place - ranks.begin()),
                 static_cast<int>(ranks.size()), timeout, std::move(name));
}

}  // namespace weft::distributed
