#include "codecs.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {

std::shared_ptr<CommHook> hook_of(const std::string& /*codec*/, std::int64_t /*start_step*/) {
  throw Error(ErrorKind::usage, "this weft-scaling is built without codecs, as the quick start needs it",
              "cmake --preset release && cmake --build --preset release builds all of it");
}

std::optional<CodecChoice> choice_of(const CommHook* /*hook*/) {
  return std::nullopt;
}

std::string to_text(const CodecChoice& /*choice*/) {
  return {};  // there is none
}

}  // namespace weft::scaling
