#include "codecs.hpp"

#include "weft/compression/auto_hook.hpp"
#include "weft/compression/hook_named.hpp"
#include "weft/core/text.hpp"

namespace weft::scaling {

std::shared_ptr<CommHook> hook_of(const std::string& codec, std::int64_t start_step) {
  return hook_named(codec, start_step);
}

std::optional<CodecChoice> choice_of(const CommHook* hook) {
  const auto* chooses = dynamic_cast<const AutoHook*>(hook);
  return chooses != nullptr ? chooses->choice() : std::nullopt;
}

std::string to_text(const CodecChoice& choice) {
  return text(choice);
}

}  // namespace weft::scaling
