#pragma once
// auto_hook() for tests, which see and may change what it chooses from.

#include <functional>

#include "weft/compression/auto_hook.hpp"

namespace weft::detail {

/// Called on each rank before it chooses, with the profile that ranks have agreed on. It may change the
/// profile, so that tests need no wire of every speed.
using ProfileObserver = std::function<void(int rank, StepProfile& profile)>;

std::shared_ptr<AutoHook> choosing_hook(AutoOptions options, ProfileObserver observer);

}  // namespace weft::detail
