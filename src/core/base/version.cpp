#include "weft/core/version.hpp"

namespace weft {

const char* library_version() noexcept {
  return WEFT_VERSION;
}

const char* built_with() noexcept {
  return WEFT_BUILT_WITH;  // of src/core/CMakeLists.txt, which knows what was found
}

}  // namespace weft
