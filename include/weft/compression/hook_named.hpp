#pragma once
// Hooks by name, for command lines and configuration files.
//
//   ReducerOptions options{.hook = hook_named("powersgd:4")};

#include <cstdint>
#include <memory>
#include <string>

#include "weft/gradient/comm_hook.hpp"

namespace weft {

/// "powersgd:R" with a rank, "powersgd:R:alternating" with one collective a step; and the names of codecs
/// (codec_named); "auto" measures and chooses (auto_hook). 16 bits round each gradient for itself; the
/// coarser codecs keep what they lost and send it later, as PowerSGD does.
/// @param start_step of what is kept: steps that are reduced as they are, before
/// @throws Error (usage) that lists the names and says which is nearest
std::shared_ptr<CommHook> hook_named(const std::string& name, std::int64_t start_step = 100);

}  // namespace weft
