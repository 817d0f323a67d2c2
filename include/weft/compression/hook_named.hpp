#pragma once
// Hooks by name, for command lines and configuration files.
//
//   ReducerOptions options{.hook = hook_named("powersgd:4")};

#include <cstdint>
#include <memory>
#include <string>

#include "weft/gradient/comm_hook.hpp"

namespace weft {

/// Takes "powersgd:R" with a rank R, "powersgd:R:alternating" (one collective a step), "auto" (auto_hook: it
/// measures and chooses), and the names of codecs (codec_named). fp16 and bf16 run without error feedback,
/// all coarser codecs with it, in 16 bits.
/// @param start_step hooks with error feedback, PowerSGD included, reduce earlier steps uncompressed
/// @throws Error (usage) that lists the names and says which is nearest
std::shared_ptr<CommHook> hook_named(const std::string& name, std::int64_t start_step = 100);

}  // namespace weft
