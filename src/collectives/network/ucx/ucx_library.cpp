#include "collectives/network/ucx/ucx_library.hpp"

#include <dlfcn.h>

#include <type_traits>

#include "core/memory/per_process.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr const char* library_file = "libucp.so.0";
constexpr const char* install_it =
    "install UCX (libucx0), add its folder to LD_LIBRARY_PATH, or choose another transport with "
    "WEFT_TRANSPORT";

UcxLibrary load() {
  // Never unloaded: its hooks in the allocator stay.
  void* const handle = dlopen(library_file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    throw Error(ErrorKind::system, text("UCX cannot be loaded: ", dlerror()), install_it);
  const auto set = [&](auto& function, const char* name) {
    // What dlsym returns is a function's address; only this cast makes it one again.
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));  // NOLINT
    if (function == nullptr)
      throw Error(ErrorKind::system, text(library_file, " has no ", name, ": it is older than UCX 1.13"),
                  install_it);
  };
  UcxLibrary library;
#define WEFT_UCX_FIND(name) set(library.name, #name);
  WEFT_UCX_FUNCTIONS(WEFT_UCX_FIND)
#undef WEFT_UCX_FIND
  return library;
}

}  // namespace

const UcxLibrary& ucx() {
  static const UcxLibrary library = load();
  return library;
}

void expect_own_ucx(int rank) {
  static const Origin first;
  if (!first.is_here())
    throw first.misuse("UCX", text("set ", env::transport.name, "=tcp for what the child connects"),
                       {rank, "connect", 0});
}

}  // namespace weft::detail
