#pragma once
// A library that is loaded when it is first needed, so that programs run on machines without it. It stays loaded: such libraries leave threads
// and hooks behind.
//
//   const SharedLibrary blas("libopenblas.so.0", "there is no BLAS", "install OpenBLAS (libopenblas0-pthread)");
//   blas.require(sgemm, "cblas_sgemm");             // a function pointer of the type that the library's header declares
//
// WRONG: a type that is not the function's. Nothing checks it.

#include <string>
#include <string_view>
#include <type_traits>

#include "weft/core/error.hpp"

namespace weft::detail {

class SharedLibrary {
 public:
  /// @param file as dlopen() takes it @param without the problem, if it cannot be loaded @param advice how to get it
  /// @throws Error (kind): "WITHOUT: why"
  SharedLibrary(std::string file, std::string_view without, std::string advice,
                ErrorKind kind = ErrorKind::system);

  /// The address of a symbol; null if the library has none of that name.
  void* find(const char* symbol) const;
  /// @param older what the library is if it has no such function: "older than UCX 1.13"
  /// @throws Error of the constructor's kind
  template <class Function>
  void require(Function& function, const char* symbol, std::string_view older = {}) const {
    // What dlsym returns is a function's address; only this cast makes it one again.
    function = reinterpret_cast<Function>(find(symbol));  // NOLINT
    if (function == nullptr)
      throw Error(kind_, text(file_, " has no ", symbol, older.empty() ? "" : ": it is ", older), advice_);
  }

 private:
  std::string file_;
  std::string advice_;
  ErrorKind kind_;
  void* handle_;
};

}  // namespace weft::detail
