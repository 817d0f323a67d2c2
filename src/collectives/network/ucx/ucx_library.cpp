#include "collectives/network/ucx/ucx_library.hpp"

#include "core/base/shared_library.hpp"
#include "core/memory/per_process.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr const char* install_it =
    "install UCX (libucx0), add its folder to LD_LIBRARY_PATH, or choose another transport with "
    "WEFT_TRANSPORT";

UcxLibrary load() {
  const SharedLibrary file("libucp.so.0", "UCX cannot be loaded", install_it);
  UcxLibrary library;
#define WEFT_UCX_FIND(name) file.require(library.name, #name, "older than UCX 1.13");
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
