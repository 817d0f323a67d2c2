#include "core/base/shared_library.hpp"

#include <dlfcn.h>

namespace weft::detail {

SharedLibrary::SharedLibrary(std::string file, std::string_view without, std::string advice, ErrorKind kind)
    : file_(std::move(file)),
      advice_(std::move(advice)),
      kind_(kind),
      handle_(dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (handle_ != nullptr) return;
  const char* const why = dlerror();
  throw Error(kind_, text(without, ": ", why == nullptr ? file_ : why), advice_);
}

void* SharedLibrary::find(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace weft::detail
