#pragma once
// Errors of weft as programs with LibTorch catch them.
//
// What is in weft::torch throws weft::torch::Error, which is a c10::Error: `catch (const c10::Error&)` around
// a training loop catches bad input of weft and of torch alike, also where it leaves backward(). Everything
// else of weft, such as connect(), throws weft::Error. The two have no base in common but std::exception.
//
//   try { train(); }
//   catch (const weft::torch::Error& error) { std::cerr << error.what() << '\n'; return weft::exit_code(error.kind()); }
//   catch (const c10::Error& error) { ... }     // torch's own
//
// WRONG: catching an Error in the middle of a step, and using the same communicator again (weft/core/error.hpp).

#include <c10/util/Exception.h>

#include "weft/core/error.hpp"

namespace weft::torch {

class Error : public c10::Error {
 public:
  explicit Error(const weft::Error& cause);

  const char* what() const noexcept override { return cause_.what(); }
  ErrorKind kind() const noexcept { return cause_.kind(); }
  /// The same as an Error of weft, with rank and operation apart.
  const weft::Error& cause() const noexcept { return cause_; }

 private:
  weft::Error cause_;
};

}  // namespace weft::torch
