#pragma once
// What strategies take from weft's codecs: codecs.cpp, or codecs_left_out.cpp in a program that is built without
// them (WEFT_SCALING_PARTS).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weft/compression/codec_choice.hpp"
#include "weft/gradient/comm_hook.hpp"

namespace weft::scaling {

/// hook_named(). @throws Error (usage) for a codec that does not exist
std::shared_ptr<CommHook> hook_of(const std::string& codec, std::int64_t start_step);
/// What was chosen, if the hook chooses and has. @param hook may be null
std::optional<CodecChoice> choice_of(const CommHook* hook);
/// The table of what was predicted, and the reasons.
std::string to_text(const CodecChoice& choice);

}  // namespace weft::scaling
