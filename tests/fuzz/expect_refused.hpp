#pragma once
// What a parser may do with any bytes: take them, or throw an Error of a kind that blames them.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "weft/core/error.hpp"

namespace weft::test {

template <class Parse>
void taken_or_refused(Parse&& parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage || error.kind() == ErrorKind::mismatch) return;
    std::fprintf(stderr, "blamed on something else: %s\n", error.what());
    std::abort();
  }
}

inline void expect(bool so, const char* what) {
  if (so) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace weft::test

/// libFuzzer's entry: https://llvm.org/docs/LibFuzzer.html
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
