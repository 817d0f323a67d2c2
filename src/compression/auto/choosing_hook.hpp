#pragma once
// auto_hook() with a look at what it chooses from.

#include <functional>

#include "weft/compression/auto_hook.hpp"

namespace weft::detail {

/// With the profile that ranks have agreed on, on each rank before it chooses. It may change it: so that
/// tests need no wire of every speed.
using ProfileObserver = std::function<void(int rank, StepProfile& profile)>;

std::shared_ptr<AutoHook> choosing_hook(AutoOptions options, ProfileObserver seen);

}  // namespace weft::detail
